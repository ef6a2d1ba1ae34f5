const HALVES = false;
const OFFSETS = true;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let both = codes[at];
    return Block(
        both & NIBBLES, (both >> vec4(4u)) & NIBBLES,
        vec2(half_at(shape.planes.x, at)), vec2(half_at(shape.planes.y, at)),
    );
}
