// A row each: what was computed is added to the hidden states (normed first where the family does so),
// and the sum is normed for the next products.
struct Norm {
    size: u32,
    blocks: u32,
    stride: u32,
    adds: u32,
    norms_added: u32,
    norms: u32,
    eps: f32,
}
@group(0) @binding(0) var<uniform> norm: Norm;
@group(0) @binding(1) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(2) var<storage, read> added: array<f32>;
@group(0) @binding(3) var<storage, read> added_weight: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> floats: array<f32>;
@group(0) @binding(6) var<storage, read_write> given: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> factors: array<vec4<f32>>;

const LANES = 128u;
var<workgroup> squares: array<f32, LANES>;

fn act_stride() -> u32 { return norm.stride; }
fn act_blocks() -> u32 { return norm.blocks; }

// 1 / the root mean square, of the lanes' sums of squares.
fn inverse_root(lane: u32, square: f32) -> f32 {
    workgroupBarrier();
    squares[lane] = square;
    workgroupBarrier();
    var sum = 0.0;
    for (var each = 0u; each < LANES; each++) {
        sum += squares[each];
    }
    return 1.0 / sqrt(sum / f32(norm.size) + norm.eps);
}

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let row = at.x;
    let begin = row * norm.size;
    var added_scale = 1.0;
    if (norm.norms_added != 0u) {
        var square = 0.0;
        for (var i = lane; i < norm.size; i += LANES) {
            square = fma(added[begin + i], added[begin + i], square);
        }
        added_scale = inverse_root(lane, square);
    }
    var square = 0.0;
    for (var block = lane; block < norm.blocks; block += LANES) {
        let end = min(block * 32u + 32u, norm.size);
        for (var i = block * 32u; i < end; i++) {
            var value = hidden[begin + i];
            if (norm.adds != 0u) {
                var more = added[begin + i];
                if (norm.norms_added != 0u) {
                    more = more * added_scale * added_weight[i];
                }
                value += more;
                hidden[begin + i] = value;
            }
            square = fma(value, value, square);
        }
    }
    var scale = 1.0;
    if (norm.norms != 0u) {
        scale = inverse_root(lane, square);
    }
    for (var block = lane; block < norm.blocks; block += LANES) {
        var values: array<f32, 32>;
        let end = min(block * 32u + 32u, norm.size);
        for (var i = block * 32u; i < end; i++) {
            var value = hidden[begin + i];
            if (norm.norms != 0u) {
                value = value * scale * weight[i];
            }
            values[i - block * 32u] = value;
        }
        keep(&values, row, block);
    }
}
