struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

const WIDTH = 8u;

fn widened(row: u32, block: u32) -> array<f32, 8> {
    let found = load_eight(row, block);
    var values: array<f32, 8>;
    for (var i = 0u; i < 4u; i++) {
        values[i] = found.low[i];
        values[4u + i] = found.high[i];
    }
    return values;
}
