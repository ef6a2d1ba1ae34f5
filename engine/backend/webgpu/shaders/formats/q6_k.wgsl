const HALVES = true;
const OFFSETS = false;

fn small_scale(index: u32) -> f32 {
    return f32(bitcast<i32>(byte_at(shape.planes.y, index) << 24u) >> 24u);
}

fn load_block(row: u32, block: u32) -> Block {
    let whole = (row * shape.blocks + block) / 8u;
    let part = block % 8u;
    let at = whole * 8u + part / 4u * 4u + part % 2u * 2u;
    let shift = vec4(part % 4u / 2u * 4u);
    let upper = vec4(part % 4u * 2u);
    let bits = shape.planes.x;
    let low_bits = (words_at(bits, whole * 16u + part / 4u * 8u) >> upper) & PAIRS;
    let high_bits = (words_at(bits, whole * 16u + part / 4u * 8u + 4u) >> upper) & PAIRS;
    let low = ((codes[at] >> shift) & NIBBLES) | (low_bits << vec4(4u));
    let high = ((codes[at + 1u] >> shift) & NIBBLES) | (high_bits << vec4(4u));
    let small = whole * 16u + part * 2u;
    return Block(
        less(low, 0x20202020u), less(high, 0x20202020u),
        vec2(half_at(shape.planes.z, whole)) * vec2(small_scale(small), small_scale(small + 1u)),
        vec2(0.0),
    );
}
