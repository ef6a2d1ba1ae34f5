// A row each: what its heads have seen of their states, normed and gated, for the next product; and what the row
// had is kept, for states to take in once it is committed.
struct Heads {
    heads: u32,
    dim: u32,
    channels: u32,
    columns: u32,
    blocks: u32,
    padded: u32,
    eps: f32,
}
@group(0) @binding(0) var<uniform> shape: Heads;
@group(0) @binding(2) var<storage, read> rows: array<f32>;
@group(0) @binding(3) var<storage, read> mixed: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> kept: array<f32>;
@group(0) @binding(6) var<storage, read_write> floats: array<f32>;
@group(0) @binding(7) var<storage, read_write> given: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> factors: array<vec4<f32>>;

const LANES = 64u;
const MOST_HEADS = 256u;
var<workgroup> scales: array<f32, MOST_HEADS>;

fn act_stride() -> u32 { return shape.padded; }
fn act_blocks() -> u32 { return shape.blocks; }

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let size = shape.heads * shape.dim;
    let begin = at.x * size;
    let place = u32(walk[PLACES + at.x]) * shape.columns;
    let given_at = at.x * (shape.columns + size);
    for (var i = lane; i < shape.columns; i += LANES) {
        kept[place + i] = rows[given_at + i + select(size, 0u, i < shape.channels)];
    }
    for (var head = lane; head < shape.heads; head += LANES) {
        var square = 0.0;
        for (var i = 0u; i < shape.dim; i++) {
            let value = mixed[begin + head * shape.dim + i];
            square = fma(value, value, square);
        }
        scales[head] = 1.0 / sqrt(square / f32(shape.dim) + shape.eps);
    }
    workgroupBarrier();
    for (var block = lane; block < shape.blocks; block += LANES) {
        var values: array<f32, 32>;
        let count = min(size - block * 32u, 32u);
        for (var i = 0u; i < count; i++) {
            let column = block * 32u + i;
            let gate = rows[given_at + shape.channels + column];
            let normed = mixed[begin + column] * scales[column / shape.dim] * weight[column % shape.dim];
            values[i] = normed * (gate / (1.0 + exp(-gate)));
        }
        keep(&values, at.x, block);
    }
}
