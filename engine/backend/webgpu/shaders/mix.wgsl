// What a row's experts give, by their shares, in ascending order of experts; and what one gives that every row
// goes through, which lies where the sum goes, by the sigmoid of the last logit.
struct Mixed {
    size: u32,
    used: u32,
    shares: u32,
    gated: u32,
    logits: u32,
}
@group(0) @binding(0) var<uniform> shape: Mixed;
@group(0) @binding(1) var<storage, read> routes: array<u32>;
@group(0) @binding(2) var<storage, read> parts: array<f32>;
@group(0) @binding(3) var<storage, read> logits: array<f32>;
@group(0) @binding(4) var<storage, read_write> added: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let column = at.x * 64u + lane;
    if (column >= shape.size) {
        return;
    }
    var sum = 0.0;
    for (var place = at.y * shape.used; place < (at.y + 1u) * shape.used; place++) {
        sum = fma(bitcast<f32>(routes[shape.shares + place]), parts[place * shape.size + column], sum);
    }
    let place = at.y * shape.size + column;
    if (shape.gated != 0u) {
        let gate = logits[at.y * shape.logits + shape.logits - 1u];
        sum = fma(1.0 / (1.0 + exp(-gate)), added[place], sum);
    }
    added[place] = sum;
}
