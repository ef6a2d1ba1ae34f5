const HALVES = false;
const OFFSETS = false;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let scale = half_at(shape.planes.x, at);
    return Block(codes[2u * at], codes[2u * at + 1u], vec2(scale), vec2(0.0));
}
