const HALVES = false;
const OFFSETS = false;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let both = codes[at];
    let fifth = scales[shape.planes.y + at];
    let low = (both & NIBBLES) | (spread_word(fifth) << vec4(4u));
    let high = ((both >> vec4(4u)) & NIBBLES) | (spread_word(fifth >> 16u) << vec4(4u));
    let scale = half_at(shape.planes.x, at);
    return Block(less(low, 0x10101010u), less(high, 0x10101010u), vec2(scale), vec2(0.0));
}
