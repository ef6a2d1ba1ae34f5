const WIDTH = 32u;

fn widened(row: u32, block: u32) -> array<f32, 32> {
    let found = load_block(row, block);
    var values: array<f32, 32>;
    for (var i = 0u; i < 4u; i++) {
        let low = vec4<f32>(unpack4xI8(found.low[i]));
        let high = vec4<f32>(unpack4xI8(found.high[i]));
        for (var j = 0u; j < 4u; j++) {
            values[4u * i + j] = low[j] * found.scale.x + found.offset.x;
            values[16u + 4u * i + j] = high[j] * found.scale.y + found.offset.y;
        }
    }
    return values;
}
