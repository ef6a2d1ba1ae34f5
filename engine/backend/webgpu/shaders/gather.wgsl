// Rows for the next product, those that are wanted or all, out of one buffer or of two side by side;
// the second may go through silu.
struct Gathered {
    first: u32,
    first_stride: u32,
    second: u32,
    second_stride: u32,
    silu: u32,
    all: u32,
    stride: u32,
    blocks: u32,
}
@group(0) @binding(0) var<uniform> shape: Gathered;
@group(0) @binding(1) var<storage, read> wanted: array<u32>;
@group(0) @binding(2) var<storage, read> one: array<f32>;
@group(0) @binding(3) var<storage, read> other: array<f32>;
@group(0) @binding(4) var<storage, read_write> floats: array<f32>;
@group(0) @binding(5) var<storage, read_write> given: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> factors: array<vec4<f32>>;

fn act_stride() -> u32 { return shape.stride; }
fn act_blocks() -> u32 { return shape.blocks; }

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let block = at.x * 64u + lane;
    if (block >= shape.blocks) {
        return;
    }
    var row = at.y;
    if (shape.all == 0u) {
        row = wanted[at.y];
    }
    let count = min(shape.first + shape.second - block * 32u, 32u);
    var values: array<f32, 32>;
    for (var i = 0u; i < count; i++) {
        let column = block * 32u + i;
        if (column < shape.first) {
            values[i] = one[row * shape.first_stride + column];
        } else {
            let value = other[row * shape.second_stride + column - shape.first];
            values[i] = select(value, value / (1.0 + exp(-value)), shape.silu != 0u);
        }
    }
    keep(&values, at.y, block);
}
