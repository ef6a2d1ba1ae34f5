fn load_eight(row: u32, eight: u32) -> Eight {
    let at = 2u * (row * shape.blocks + eight);
    return Eight(bitcast<vec4<f32>>(codes[at]), bitcast<vec4<f32>>(codes[at + 1u]));
}
