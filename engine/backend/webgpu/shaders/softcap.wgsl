// cap * tanh(x / cap), in place.
struct Cap {
    size: u32,
    stride: u32,
    cap: f32,
}
@group(0) @binding(0) var<uniform> shape: Cap;
@group(0) @binding(1) var<storage, read_write> logits: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let column = at.x * 64u + lane;
    if (column < shape.size) {
        let place = at.y * shape.stride + column;
        logits[place] = shape.cap * tanh(clamp(logits[place] / shape.cap, -15.0, 15.0));
    }
}
