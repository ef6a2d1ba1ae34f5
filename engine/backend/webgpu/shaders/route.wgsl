// Experts of all rows, chosen by one workgroup, and places, of a row and one of its experts, put together
// by expert in tiles of ROWS. A row's places are in ascending order of experts.
//
// routes: tiles of three words (see expert_outputs.wgsl), sorted places, and by place its expert and share.
struct Choice {
    count: u32,
    used: u32,
    normalise: u32,
    tiles: u32,
    places: u32,
    stride: u32,
}
@group(0) @binding(0) var<uniform> shape: Choice;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> routes: array<u32>;

const LANES = 256u;
var<workgroup> scores: array<f32, LANES>;
var<workgroup> picked: array<u32, LANES>;
var<workgroup> counts: array<u32, LANES>;

fn chosen_at() -> u32 { return 3u * shape.tiles + shape.places; }

// The lane's expert for a row, if it is among the best: of equal ones the first.
fn choose(lane: u32, row: u32) {
    workgroupBarrier();
    if (lane < shape.count) {
        scores[lane] = logits[row * shape.stride + lane];
    }
    workgroupBarrier();
    var better = 0u;
    for (var each = 0u; each < shape.count; each++) {
        better += u32(scores[each] > scores[lane] || (scores[each] == scores[lane] && each < lane));
    }
    picked[lane] = u32(lane < shape.count && better < shape.used);
    workgroupBarrier();
    if (picked[lane] == 0u) {
        return;
    }
    var before = 0u;
    var top = scores[lane];
    for (var each = 0u; each < shape.count; each++) {
        before += select(0u, picked[each], each < lane);
        top = max(top, scores[each]);
    }
    if (before >= shape.used) {
        return;
    }
    var total = 0.0;
    for (var each = 0u; each < shape.count; each++) {
        if (shape.normalise == 0u || picked[each] != 0u) {
            total += exp(scores[each] - top);
        }
    }
    let place = row * shape.used + before;
    routes[chosen_at() + place] = lane;
    routes[chosen_at() + shape.places + place] = bitcast<u32>(exp(scores[lane] - top) / total);
}

@compute @workgroup_size(256)
fn main(
    @builtin(local_invocation_index) lane: u32,
    @builtin(workgroup_id) at: vec3<u32>,
    @builtin(num_workgroups) rows: vec3<u32>,
) {
    if (at.x != 0u) {  // there are as many as rows, which is how their number is told
        return;
    }
    for (var row = 0u; row < rows.x; row++) {
        choose(lane, row);
    }
    let places = rows.x * shape.used;
    storageBarrier();
    var count = 0u;
    for (var place = 0u; place < places; place++) {
        count += u32(routes[chosen_at() + place] == lane);
    }
    counts[lane] = count;
    workgroupBarrier();
    var first = 0u;
    var tile = 0u;
    var tiles = 0u;
    for (var each = 0u; each < shape.count; each++) {
        let own = (counts[each] + ROWS - 1u) / ROWS;
        first += select(0u, counts[each], each < lane);
        tile += select(0u, own, each < lane);
        tiles += own;
    }
    for (var done = 0u; done < count; done += ROWS) {
        routes[3u * tile] = lane;
        routes[3u * tile + 1u] = first + done;
        routes[3u * tile + 2u] = min(count - done, ROWS);
        tile++;
    }
    for (var place = 0u; place < places; place++) {
        if (routes[chosen_at() + place] == lane) {
            routes[3u * shape.tiles + first] = place;
            first++;
        }
    }
    for (var left = tiles + lane; left < shape.tiles; left += LANES) {
        routes[3u * left] = 0u;
        routes[3u * left + 1u] = 0u;
        routes[3u * left + 2u] = 0u;
    }
}
