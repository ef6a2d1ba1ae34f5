// Rows in the place of others: what a head has put out for the parent of each drafted node.
struct Followed {
    size: u32,
    rows: u32,
    most: u32,
}
@group(0) @binding(0) var<uniform> shape: Followed;
@group(0) @binding(1) var<storage, read> wanted: array<u32>;
@group(0) @binding(2) var<storage, read_write> outputs: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let column = at.x * 64u + lane;
    if (column >= shape.size) {
        return;
    }
    var kept: array<f32, 16>;
    for (var row = 0u; row < shape.rows; row++) {
        kept[row] = outputs[wanted[shape.most + row] * shape.size + column];
    }
    for (var row = 0u; row < shape.rows; row++) {
        outputs[row * shape.size + column] = kept[row];
    }
}
