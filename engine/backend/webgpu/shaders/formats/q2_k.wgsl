const HALVES = true;
const OFFSETS = true;

fn load_block(row: u32, block: u32) -> Block {
    let whole = (row * shape.blocks + block) / 8u;
    let part = block % 8u;
    let at = whole * 4u + part / 4u * 2u;
    let shift = vec4(part % 4u * 2u);
    let scale = half_at(shape.planes.y, whole);
    let least = half_at(shape.planes.z, whole);
    let first = byte_at(shape.planes.x, whole * 16u + part * 2u);
    let second = byte_at(shape.planes.x, whole * 16u + part * 2u + 1u);
    return Block(
        (codes[at] >> shift) & PAIRS, (codes[at + 1u] >> shift) & PAIRS,
        vec2(scale) * vec2(f32(first & 15u), f32(second & 15u)),
        vec2(-least) * vec2(f32(first >> 4u), f32(second >> 4u)),
    );
}
