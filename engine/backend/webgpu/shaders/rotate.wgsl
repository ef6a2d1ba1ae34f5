// A head of a row each: queries and keys normed and rotated, queries scaled, keys and values put in
// their places in the cache as 16-bit floats.
//
// rows: token, position, slot, where its path begins in `paths`. Where attention is gated, a head's gate follows
// its query: combine.wgsl reads it. stride: of what a row begins with; where there are queries alone, keys and
// values are those of another block.
struct Heads {
    heads: u32,
    kv_heads: u32,
    dim: u32,
    padded: u32,
    rotated: u32,
    normed: u32,
    gated: u32,
    stride: u32,
    eps: f32,
    scale: f32,
}
@group(0) @binding(0) var<uniform> shape: Heads;
@group(0) @binding(1) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read> given: array<f32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read> turns: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> queries: array<f32>;
@group(0) @binding(6) var<storage, read_write> keys: array<u32>;
@group(0) @binding(7) var<storage, read_write> values: array<u32>;

const LANES = 64u;
const CHUNK = 64u;
var<workgroup> numbers: array<f32, 256>;
var<workgroup> squares: array<f32, LANES>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let head = at.x;
    let row = rows[at.y];
    let turning = shape.heads + shape.kv_heads;
    let gates = select(0u, min(head, shape.heads), shape.gated != 0u);
    let begin = at.y * shape.stride + (head + gates) * shape.dim;
    var square = 0.0;
    for (var i = lane; i < shape.padded; i += LANES) {
        var value = 0.0;
        if (i < shape.dim) {
            value = given[begin + i];
        }
        numbers[i] = value;
        square = fma(value, value, square);
    }
    squares[lane] = square;
    workgroupBarrier();
    if (shape.normed != 0u && head < turning) {
        var sum = 0.0;
        for (var each = 0u; each < LANES; each++) {
            sum += squares[each];
        }
        let scale = 1.0 / sqrt(sum / f32(shape.dim) + shape.eps);
        let first = select(shape.dim, 0u, head < shape.heads);
        for (var i = lane; i < shape.dim; i += LANES) {
            numbers[i] = numbers[i] * scale * weights[first + i];
        }
    }
    workgroupBarrier();
    let half = shape.rotated / 2u;
    if (head < turning) {
        for (var i = lane; i < half; i += LANES) {
            let turn = turns[u32(row.y) * half + i];
            let low = numbers[i];
            let high = numbers[i + half];
            numbers[i] = fma(low, turn.x, -(high * turn.y));
            numbers[i + half] = fma(high, turn.x, low * turn.y);
        }
    }
    workgroupBarrier();
    if (head < shape.heads) {
        for (var i = lane; i < shape.padded; i += LANES) {
            queries[(at.y * shape.heads + head) * shape.padded + i] = numbers[i] * shape.scale;
        }
        return;
    }
    let chunk = u32(row.z) / CHUNK;
    let offset = u32(row.z) % CHUNK;
    for (var pair = lane; pair < shape.padded / 2u; pair += LANES) {
        let two = pack2x16float(vec2(numbers[2u * pair], numbers[2u * pair + 1u]));
        if (head < turning) {
            let place = (chunk * shape.kv_heads + head - shape.heads) * (shape.padded / 8u) + pair / 4u;
            keys[(place * CHUNK + offset) * 4u + pair % 4u] = two;
        } else {
            let place = (chunk * shape.kv_heads + head - turning) * CHUNK + offset;
            values[place * (shape.padded / 2u) + pair] = two;
        }
    }
}
