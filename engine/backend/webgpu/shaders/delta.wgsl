// 16 columns of a value head's state, which go through all steps of a pass with one reading: a step is a token,
//     d = share * (value - decay * S^T key);  S = decay * S + key d^T;  mixed = S^T query
// Four lanes share a column, every fourth key dimension each, and their sums meet in one order: what a row
// gives is the same whatever is beside it. Columns of other workgroups do not matter to these.
struct Columns {
    key_heads: u32,
    key_dim: u32,
    heads: u32,
    value_dim: u32,
    channels: u32,
    tiled: u32,
}
@group(0) @binding(0) var<uniform> shape: Columns;
@group(0) @binding(2) var<storage, read> ready: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;
@group(0) @binding(4) var<storage, read_write> mixed: array<f32>;

const COLUMNS = 16u;
const SLICES = 4u;
const WIDEST = 128u;
var<workgroup> block: array<f32, WIDEST * COLUMNS>;
var<workgroup> key: array<f32, WIDEST>;
var<workgroup> query: array<f32, WIDEST>;
var<workgroup> sums: array<f32, 2u * COLUMNS * SLICES>;

// A column's sums, which begin there, as one.
fn joined(begin: u32) -> f32 {
    return (sums[begin] + sums[begin + COLUMNS]) + (sums[begin + 2u * COLUMNS] + sums[begin + 3u * COLUMNS]);
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let own = lane % COLUMNS;
    let slice = lane / COLUMNS;
    let column = at.x * COLUMNS + own;
    let size = shape.key_dim * COLUMNS;
    let place = (at.y * ((shape.value_dim + COLUMNS - 1u) / COLUMNS) + at.x) * size;
    let of_key = select(at.y / (shape.heads / shape.key_heads), at.y % shape.key_heads, shape.tiled != 0u);
    let first = u32(walk[0]);
    let steps = u32(walk[1]);
    let written = u32(walk[2]);
    let blank = walk[3] != 0;
    for (var i = lane; i < size; i += 64u) {
        block[i] = 0.0;
        if (!blank) {
            block[i] = state[place + i];
        }
    }
    for (var step = 0u; step < steps; step++) {
        let visit = u32(walk[STEPS + step]);
        if ((visit & ANEW) != 0u) {
            for (var i = lane; i < size; i += 64u) {
                block[i] = 0.0;
                if (!blank || written != 0u) {
                    block[i] = state[place + i];
                }
            }
        }
        let node = visit % ANEW;
        let begin = node * (shape.channels + 2u * shape.heads);
        for (var i = lane; i < shape.key_dim; i += 64u) {
            query[i] = ready[begin + of_key * shape.key_dim + i];
            key[i] = ready[begin + (shape.key_heads + of_key) * shape.key_dim + i];
        }
        workgroupBarrier();
        var sum = 0.0;
        for (var i = slice; i < shape.key_dim; i += SLICES) {
            sum = fma(block[i * COLUMNS + own], key[i], sum);
        }
        sums[lane] = sum;
        workgroupBarrier();
        let share = ready[begin + shape.channels + at.y];
        let decay = ready[begin + shape.channels + shape.heads + at.y];
        var value = 0.0;
        if (column < shape.value_dim) {
            value = ready[begin + 2u * shape.key_heads * shape.key_dim + at.y * shape.value_dim + column];
        }
        let added = share * (value - decay * joined(own));
        sum = 0.0;
        for (var i = slice; i < shape.key_dim; i += SLICES) {
            let next = fma(key[i], added, decay * block[i * COLUMNS + own]);
            block[i * COLUMNS + own] = next;
            sum = fma(next, query[i], sum);
        }
        sums[COLUMNS * SLICES + lane] = sum;
        workgroupBarrier();
        if (slice == 0u && column < shape.value_dim && node >= first) {
            mixed[((node - first) * shape.heads + at.y) * shape.value_dim + column] = joined(COLUMNS * SLICES + own);
        }
        if (step + 1u == written) {
            for (var i = lane; i < size; i += 64u) {
                state[place + i] = block[i];
            }
        }
    }
}
