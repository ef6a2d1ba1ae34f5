// Attention of a head of ROWS rows to a part of the keys: four chunks of 64 by position along a row's own
// path, one after the other, so that the numbers depend on nothing but that path. Rows that share what
// is read of the keys are a chain's: each has its positions for slots.
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
const WIDEST = 256u;
var<workgroup> query: array<f32, WIDEST * ROWS>;
var<workgroup> scores: array<f32, CHUNK * ROWS>;
var<workgroup> shares: array<f32, CHUNK * ROWS>;
var<workgroup> slots: array<u32, CHUNK>;

fn capped(score: f32) -> f32 {
    if (shape.softcap > 0.0) {
        return shape.softcap * tanh(clamp(score / shape.softcap, -15.0, 15.0));
    }
    return score;
}

// The oldest position that a row at `own` sees.
fn oldest(own: u32) -> u32 {
    return select(0u, own - shape.window + 1u, shape.window != 0u && own >= shape.window);
}

// The keys of a chunk that such a row sees: from one to before another.
fn seen(own: u32, chunk: u32) -> vec2<u32> {
    if (chunk > own || chunk + CHUNK <= oldest(own)) {
        return vec2(CHUNK, 0u);
    }
    return vec2(max(chunk, oldest(own)) - chunk, min(own - chunk + 1u, CHUNK));
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let head = at.y;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let first_row = at.z * ROWS;
    let path = rows[first_row].w;
    let base = u32(paths[0]);
    let first = at.x * CHUNKS * CHUNK;
    let pairs = shape.padded / 2u;
    let eights = shape.padded / 8u;
    // each row
    let own_$ = u32(rows[first_row + $u].y);
    var near_$ = vec2(0.0);
    var far_$ = vec2(0.0);
    var peak_$ = LOWEST;
    var total_$ = 0.0;
    for (var i = lane; i < shape.padded; i += CHUNK) {
        query[$u * WIDEST + i] = queries[((first_row + $u) * shape.heads + head) * shape.padded + i];
    }
    // end
    for (var chunk = first; chunk < first + CHUNKS * CHUNK; chunk += CHUNK) {
        var begin = CHUNK;
        var end = 0u;
        // each row
        let seen_$ = seen(own_$, chunk);
        begin = min(begin, seen_$.x);
        end = max(end, seen_$.y);
        // end
        if (begin >= end) {
            continue;
        }
        workgroupBarrier();
        if (lane >= begin && lane < end) {
            var slot = chunk + lane;
            if (slot >= base) {
                slot = u32(paths[u32(path) + slot - base]);
            }
            slots[lane] = slot;
            let start = (slot / CHUNK * shape.kv_heads + kv_head) * eights * CHUNK + slot % CHUNK;
            // each row
            var sum_$ = 0.0;
            // end
            for (var eight = 0u; eight < eights; eight++) {
                let packed = keys[start + eight * CHUNK];
                for (var i = 0u; i < 4u; i++) {
                    let two = unpack2x16float(packed[i]);
                    let place = eight * 8u + 2u * i;
                    // each row
                    sum_$ = fma(query[$u * WIDEST + place], two.x, sum_$);
                    sum_$ = fma(query[$u * WIDEST + place + 1u], two.y, sum_$);
                    // end
                }
            }
            // each row
            scores[$u * CHUNK + lane] = capped(sum_$);
            // end
        }
        workgroupBarrier();
        // each row
        if (seen_$.x < seen_$.y) {
            var top = peak_$;
            for (var key = seen_$.x; key < seen_$.y; key++) {
                top = max(top, scores[$u * CHUNK + key]);
            }
            shares[$u * CHUNK + lane] = exp(scores[$u * CHUNK + lane] - top);
            let kept = select(exp(peak_$ - top), 0.0, peak_$ == LOWEST);
            peak_$ = top;
            total_$ *= kept;
            near_$ *= kept;
            far_$ *= kept;
        }
        // end
        workgroupBarrier();
        for (var key = begin; key < end; key++) {
            let slot = slots[key];
            let place = ((slot / CHUNK * shape.kv_heads + kv_head) * CHUNK + slot % CHUNK) * pairs + lane;
            var low = vec2(0.0);
            var high = vec2(0.0);
            if (lane < pairs) {
                low = unpack2x16float(values[place]);
            }
            if (lane + CHUNK < pairs) {
                high = unpack2x16float(values[place + CHUNK]);
            }
            // each row
            if (key >= seen_$.x && key < seen_$.y) {
                let share = shares[$u * CHUNK + key];
                total_$ += share;
                near_$ = fma(vec2(share), low, near_$);
                far_$ = fma(vec2(share), high, far_$);
            }
            // end
        }
    }
    // each row
    {
        let place = (((first_row + $u) * shape.heads + head) * shape.parts + at.x) * (shape.padded + 2u);
        if (lane < pairs) {
            mixed[place + 2u * lane] = near_$.x;
            mixed[place + 2u * lane + 1u] = near_$.y;
        }
        if (lane + CHUNK < pairs) {
            mixed[place + 2u * (lane + CHUNK)] = far_$.x;
            mixed[place + 2u * (lane + CHUNK) + 1u] = far_$.y;
        }
        if (lane == 0u) {
            mixed[place + shape.padded] = peak_$;
            mixed[place + shape.padded + 1u] = total_$;
        }
    }
    // end
}
