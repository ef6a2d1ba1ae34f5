// Slots of a block's keys and values, copied one after the other by whoever has the two numbers.
struct Heads {
    kv_heads: u32,
    padded: u32,
}
@group(0) @binding(0) var<uniform> shape: Heads;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;
@group(0) @binding(3) var<storage, read_write> values: array<u32>;

const CHUNK = 64u;

fn key_at(slot: u32, head: u32, pair: u32) -> u32 {
    let place = (slot / CHUNK * shape.kv_heads + head) * (shape.padded / 8u) + pair / 4u;
    return (place * CHUNK + slot % CHUNK) * 4u + pair % 4u;
}

fn value_at(slot: u32, head: u32, pair: u32) -> u32 {
    return ((slot / CHUNK * shape.kv_heads + head) * CHUNK + slot % CHUNK) * (shape.padded / 2u) + pair;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    for (var pair = lane; pair < shape.padded / 2u; pair += 64u) {
        // slots: their count, where they go, and where they come from.
        for (var i = 0u; i < slots[0]; i++) {
            let source = slots[2u + i];
            let place = slots[1] + i;
            keys[key_at(place, at.x, pair)] = keys[key_at(source, at.x, pair)];
            values[value_at(place, at.x, pair)] = values[value_at(source, at.x, pair)];
        }
    }
}
