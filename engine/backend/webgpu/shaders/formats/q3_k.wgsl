const HALVES = true;
const OFFSETS = false;

// The scale of 16 numbers: 6 bits, less 32.
fn small_scale(whole: u32, number: u32) -> f32 {
    let plane = shape.planes.y;
    let low = byte_at(plane, whole * 12u + number % 8u) >> (number / 8u * 4u);
    let high = byte_at(plane, whole * 12u + 8u + number % 4u) >> (number / 4u * 2u);
    return f32(i32((low & 15u) | ((high & 3u) << 4u)) - 32);
}

fn load_block(row: u32, block: u32) -> Block {
    let whole = (row * shape.blocks + block) / 8u;
    let part = block % 8u;
    let at = whole * 4u + part / 4u * 2u;
    let shift = vec4(part % 4u * 2u);
    let third = vec4(part);
    let low_bits = (words_at(shape.planes.x, whole * 8u) >> third) & ONES;
    let high_bits = (words_at(shape.planes.x, whole * 8u + 4u) >> third) & ONES;
    let low = ((codes[at] >> shift) & PAIRS) | (low_bits << vec4(2u));
    let high = ((codes[at + 1u] >> shift) & PAIRS) | (high_bits << vec4(2u));
    let scale = half_at(shape.planes.z, whole);
    return Block(
        less(low, 0x04040404u), less(high, 0x04040404u),
        vec2(scale) * vec2(small_scale(whole, part * 2u), small_scale(whole, part * 2u + 1u)),
        vec2(0.0),
    );
}
