// Hidden states of tokens: their rows of the embedding. Tokens of other parts of it are left alone.
struct Entry {
    size: u32,
    scale: f32,
}
@group(0) @binding(3) var<uniform> entry_shape: Entry;
@group(0) @binding(4) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(5) var<storage, read_write> hidden: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let block = at.x * 64u + lane;
    let token = u32(rows[at.y].x) - shape.first;
    if (block >= shape.blocks || token >= shape.outputs) {
        return;
    }
    var values = widened(token, block);
    let start = block * WIDTH;
    let count = min(entry_shape.size - start, WIDTH);
    for (var i = 0u; i < count; i++) {
        hidden[at.y * entry_shape.size + start + i] = values[i] * entry_shape.scale;
    }
}
