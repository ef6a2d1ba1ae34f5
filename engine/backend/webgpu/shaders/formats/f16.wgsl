fn two(bits: u32) -> vec2<f32> {
    return vec2(widen_half(bits & 0xffffu), widen_half(bits >> 16u));
}

fn load_eight(row: u32, eight: u32) -> Eight {
    let found = codes[row * shape.blocks + eight];
    return Eight(vec4(two(found.x), two(found.y)), vec4(two(found.z), two(found.w)));
}
