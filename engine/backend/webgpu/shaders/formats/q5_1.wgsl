const HALVES = false;
const OFFSETS = true;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let both = codes[at];
    let fifth = scales[shape.planes.z + at];
    return Block(
        (both & NIBBLES) | (spread_word(fifth) << vec4(4u)),
        ((both >> vec4(4u)) & NIBBLES) | (spread_word(fifth >> 16u) << vec4(4u)),
        vec2(half_at(shape.planes.x, at)), vec2(half_at(shape.planes.y, at)),
    );
}
