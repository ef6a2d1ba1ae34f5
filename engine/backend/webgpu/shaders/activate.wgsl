// activation(gate) * up, for the next product. 0: silu, 1: gelu with tanh, 2: gpt-oss's swiglu.
struct Gates {
    size: u32,
    blocks: u32,
    stride: u32,
    kind: u32,
}
@group(0) @binding(0) var<uniform> shape: Gates;
@group(0) @binding(1) var<storage, read> gates: array<f32>;
@group(0) @binding(2) var<storage, read_write> floats: array<f32>;
@group(0) @binding(3) var<storage, read_write> given: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> factors: array<vec4<f32>>;

fn act_stride() -> u32 { return shape.stride; }
fn act_blocks() -> u32 { return shape.blocks; }

fn gated(gate: f32, up: f32) -> f32 {
    if (shape.kind == 0u) {
        return gate / (1.0 + exp(-gate)) * up;
    }
    if (shape.kind == 1u) {
        let inner = 0.7978845608028654 * fma(0.044715 * gate * gate, gate, gate);
        return 0.5 * gate * (1.0 + tanh(clamp(inner, -15.0, 15.0))) * up;
    }
    let low = min(gate, 7.0);
    return (clamp(up, -7.0, 7.0) + 1.0) * (low / (1.0 + exp(-1.702 * low)));
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let block = at.x * 64u + lane;
    if (block >= shape.blocks) {
        return;
    }
    let start = at.y * 2u * shape.size + block * 32u;
    let count = min(shape.size - block * 32u, 32u);
    var values: array<f32, 32>;
    for (var i = 0u; i < count; i++) {
        values[i] = gated(gates[start + i], gates[start + shape.size + i]);
    }
    keep(&values, at.y, block);
}
