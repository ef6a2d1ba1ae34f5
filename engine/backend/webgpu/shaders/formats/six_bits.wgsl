// The scale and the minimum of 32 numbers, 6 bits each, that Q4_K and Q5_K keep in 12 bytes.
fn small_scales(plane: u32, whole: u32, part: u32) -> vec2<f32> {
    let at = plane + whole * 3u;
    let shift = part % 4u * 8u;
    let first = scales[at] >> shift;
    let second = scales[at + 1u] >> shift;
    if (part < 4u) {
        return vec2(f32(first & 63u), f32(second & 63u));
    }
    let upper = scales[at + 2u] >> shift;
    return vec2(
        f32((upper & 15u) | ((first >> 2u) & 48u)),
        f32(((upper >> 4u) & 15u) | ((second >> 2u) & 48u)),
    );
}
