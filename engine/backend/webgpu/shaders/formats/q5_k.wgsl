const HALVES = false;
const OFFSETS = true;

fn load_block(row: u32, block: u32) -> Block {
    let whole = (row * shape.blocks + block) / 8u;
    let part = block % 8u;
    let at = whole * 8u + part / 2u * 2u;
    let shift = vec4(part % 2u * 4u);
    let fifth = vec4(part);
    let low_bits = (words_at(shape.planes.z, whole * 8u) >> fifth) & ONES;
    let high_bits = (words_at(shape.planes.z, whole * 8u + 4u) >> fifth) & ONES;
    let small = small_scales(shape.planes.y, whole, part);
    return Block(
        ((codes[at] >> shift) & NIBBLES) | (low_bits << vec4(4u)),
        ((codes[at + 1u] >> shift) & NIBBLES) | (high_bits << vec4(4u)),
        vec2(half_at(shape.planes.x, 2u * whole) * small.x),
        vec2(-half_at(shape.planes.x, 2u * whole + 1u) * small.y),
    );
}
