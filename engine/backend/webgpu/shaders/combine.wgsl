// A row each: the parts of its attention in their order, and what the heads give for the next product.
//
// asked: queries, keys and values as products have left them; gated: the stride of such rows, in which the gate
// of each head lies behind its query; 0: there are no gates.
struct Parts {
    heads: u32,
    dim: u32,
    padded: u32,
    parts: u32,
    window: u32,
    sinks: u32,
    blocks: u32,
    stride: u32,
    gated: u32,
}
@group(0) @binding(0) var<uniform> shape: Parts;
@group(0) @binding(1) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read> mixed: array<f32>;
@group(0) @binding(3) var<storage, read> sinks: array<f32>;
@group(0) @binding(4) var<storage, read_write> floats: array<f32>;
@group(0) @binding(5) var<storage, read_write> given: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> factors: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> asked: array<f32>;

const LANES = 64u;
const SPAN = 256u;
const LOWEST = -3.0e38;
var<workgroup> tops: array<f32, 256>;
var<workgroup> totals: array<f32, 256>;

fn act_stride() -> u32 { return shape.stride; }
fn act_blocks() -> u32 { return shape.blocks; }

fn part_at(row: u32, head: u32, part: u32) -> u32 {
    return ((row * shape.heads + head) * shape.parts + part) * (shape.padded + 2u);
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let row = at.x;
    let own = u32(rows[row].y);
    var begin = 0u;
    if (shape.window != 0u && own >= shape.window) {
        begin = (own - shape.window + 1u) / SPAN;
    }
    let end = own / SPAN + 1u;
    for (var head = lane; head < shape.heads; head += LANES) {
        var top = LOWEST;
        if (shape.sinks != 0u) {
            top = sinks[head];
        }
        for (var part = begin; part < end; part++) {
            top = max(top, mixed[part_at(row, head, part) + shape.padded]);
        }
        var total = 0.0;
        for (var part = begin; part < end; part++) {
            let place = part_at(row, head, part) + shape.padded;
            total = fma(exp(mixed[place] - top), mixed[place + 1u], total);
        }
        if (shape.sinks != 0u) {
            total += exp(sinks[head] - top);
        }
        tops[head] = top;
        totals[head] = total;
    }
    workgroupBarrier();
    let size = shape.heads * shape.dim;
    for (var block = lane; block < shape.blocks; block += LANES) {
        var found: array<f32, 32>;
        let count = min(size - block * 32u, 32u);
        for (var part = begin; part < end; part++) {
            var last = shape.heads;
            var share = 0.0;
            var place = 0u;
            for (var i = 0u; i < count; i++) {
                let head = (block * 32u + i) / shape.dim;
                if (head != last) {
                    last = head;
                    place = part_at(row, head, part);
                    share = exp(mixed[place + shape.padded] - tops[head]);
                }
                found[i] = fma(share, mixed[place + (block * 32u + i) % shape.dim], found[i]);
            }
        }
        for (var i = 0u; i < count; i++) {
            let head = (block * 32u + i) / shape.dim;
            found[i] = found[i] / totals[head];
            if (shape.gated != 0u) {
                let gate = asked[row * shape.gated + (head + 1u) * shape.dim + block * 32u + i];
                found[i] = found[i] / (1.0 + exp(-gate));
            }
        }
        keep(&found, row, block);
    }
}
