const HALVES = false;
const OFFSETS = false;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let both = codes[at];
    let scale = half_at(shape.planes.x, at);
    return Block(
        less(both & NIBBLES, 0x08080808u), less((both >> vec4(4u)) & NIBBLES, 0x08080808u),
        vec2(scale), vec2(0.0),
    );
}
