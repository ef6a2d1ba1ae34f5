// What a product of TOGETHER rows reads, and where it leaves what it gives.
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;

fn weights_row(tile: u32, output: u32) -> u32 {
    return min(output, shape.outputs - 1u);
}

fn given_row(tile: u32, row: u32) -> u32 {
    return tile * TOGETHER + row;
}

fn store(tile: u32, output: u32, row: u32, sum: f32) {
    if (output >= shape.outputs) {
        return;
    }
    var found = sum;
    if (shape.biased != 0u) {
        found += bias[shape.first + output];
    }
    result[(tile * TOGETHER + row) * shape.stride + shape.column + output] = found;
}
