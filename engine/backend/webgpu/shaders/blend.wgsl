// z * a + (1 - z) * b, with z through the sigmoid and b through silu.
struct Blended {
    size: u32,
}
@group(0) @binding(0) var<uniform> shape: Blended;
@group(0) @binding(1) var<storage, read> first: array<f32>;
@group(0) @binding(2) var<storage, read> second: array<f32>;
@group(0) @binding(3) var<storage, read> gate: array<f32>;
@group(0) @binding(4) var<storage, read_write> hidden: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let column = at.x * 64u + lane;
    if (column < shape.size) {
        let place = at.y * shape.size + column;
        let b = second[place] / (1.0 + exp(-second[place]));
        let z = 1.0 / (1.0 + exp(-gate[place]));
        hidden[place] = fma(first[place] - b, z, b);
    }
}
