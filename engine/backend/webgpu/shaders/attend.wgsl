// Attention of a head of a row to a part of the keys: four chunks of 64 by position along the row's own
// path, one after the other, so that the numbers depend on nothing but that path.
//
// A part's result: `padded` numbers, the peak of the scores, the sum of the exponentials.
struct Parts {
    heads: u32,
    kv_heads: u32,
    padded: u32,
    parts: u32,
    window: u32,
    softcap: f32,
}
@group(0) @binding(0) var<uniform> shape: Parts;
@group(0) @binding(1) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read> paths: array<i32>;
@group(0) @binding(3) var<storage, read> queries: array<f32>;
@group(0) @binding(4) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> values: array<u32>;
@group(0) @binding(6) var<storage, read_write> mixed: array<f32>;

const CHUNK = 64u;
const CHUNKS = 4u;
const LOWEST = -3.0e38;
var<workgroup> query: array<f32, 256>;
var<workgroup> scores: array<f32, CHUNK>;
var<workgroup> shares: array<f32, CHUNK>;
var<workgroup> slots: array<u32, CHUNK>;

fn score(slot: u32, head: u32) -> f32 {
    let eights = shape.padded / 8u;
    let begin = (slot / CHUNK * shape.kv_heads + head) * eights * CHUNK + slot % CHUNK;
    var sum = 0.0;
    for (var eight = 0u; eight < eights; eight++) {
        let packed = keys[begin + eight * CHUNK];
        for (var i = 0u; i < 4u; i++) {
            let two = unpack2x16float(packed[i]);
            sum = fma(query[eight * 8u + 2u * i], two.x, sum);
            sum = fma(query[eight * 8u + 2u * i + 1u], two.y, sum);
        }
    }
    if (shape.softcap > 0.0) {
        sum = shape.softcap * tanh(clamp(sum / shape.softcap, -15.0, 15.0));
    }
    return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let head = at.y;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let own = u32(rows[at.z].y);
    let path = rows[at.z].w;
    let base = u32(paths[0]);
    let first = at.x * CHUNKS * CHUNK;
    var oldest = 0u;
    if (shape.window != 0u && own >= shape.window) {
        oldest = own - shape.window + 1u;
    }
    if (first > own || first + CHUNKS * CHUNK <= oldest) {
        return;
    }
    for (var i = lane; i < shape.padded; i += CHUNK) {
        query[i] = queries[(at.z * shape.heads + head) * shape.padded + i];
    }
    let pairs = shape.padded / 2u;
    var near = vec2(0.0);
    var far = vec2(0.0);
    var peak = LOWEST;
    var total = 0.0;
    for (var chunk = first; chunk < first + CHUNKS * CHUNK; chunk += CHUNK) {
        if (chunk > own || chunk + CHUNK <= oldest) {
            continue;
        }
        let begin = max(chunk, oldest) - chunk;
        let end = min(own - chunk + 1u, CHUNK);
        let position = chunk + lane;
        let visible = lane >= begin && lane < end;
        workgroupBarrier();
        scores[lane] = LOWEST;
        if (visible) {
            var slot = position;
            if (position >= base) {
                slot = u32(paths[u32(path) + position - base]);
            }
            slots[lane] = slot;
        }
        workgroupBarrier();
        if (visible) {
            scores[lane] = score(slots[lane], kv_head);
        }
        workgroupBarrier();
        var top = peak;
        for (var key = begin; key < end; key++) {
            top = max(top, scores[key]);
        }
        if (visible) {
            shares[lane] = exp(scores[lane] - top);
        }
        workgroupBarrier();
        let kept = select(exp(peak - top), 0.0, peak == LOWEST);
        peak = top;
        total *= kept;
        near *= kept;
        far *= kept;
        for (var key = begin; key < end; key++) {
            let share = shares[key];
            let slot = slots[key];
            let place = ((slot / CHUNK * shape.kv_heads + kv_head) * CHUNK + slot % CHUNK) * pairs;
            total += share;
            if (lane < pairs) {
                near = fma(vec2(share), unpack2x16float(values[place + lane]), near);
            }
            if (lane + CHUNK < pairs) {
                far = fma(vec2(share), unpack2x16float(values[place + lane + CHUNK]), far);
            }
        }
    }
    let place = ((at.z * shape.heads + head) * shape.parts + at.x) * (shape.padded + 2u);
    if (lane < pairs) {
        mixed[place + 2u * lane] = near.x;
        mixed[place + 2u * lane + 1u] = near.y;
    }
    if (lane + CHUNK < pairs) {
        mixed[place + 2u * (lane + CHUNK)] = far.x;
        mixed[place + 2u * (lane + CHUNK) + 1u] = far.y;
    }
    if (lane == 0u) {
        mixed[place + shape.padded] = peak;
        mixed[place + shape.padded + 1u] = total;
    }
}
