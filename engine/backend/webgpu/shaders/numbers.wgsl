// A 16-bit float in fp32, exactly: devices may flush what is subnormal in their own conversion.
fn widen_half(bits: u32) -> f32 {
    let magnitude = bits & 0x7fffu;
    let normal = bitcast<f32>((magnitude << 13u) + 0x38000000u);
    let value = select(normal, f32(magnitude) * 5.9604644775390625e-8, magnitude < 0x400u);
    return select(value, -value, (bits & 0x8000u) != 0u);
}
