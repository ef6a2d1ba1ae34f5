// Where products leave what they give.
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;

fn store(output: u32, row: u32, sum: f32) {
    if (output >= shape.outputs) {
        return;
    }
    var found = sum;
    if (shape.biased != 0u) {
        found += bias[shape.first + output];
    }
    result[row * shape.stride + shape.column + output] = found;
}
