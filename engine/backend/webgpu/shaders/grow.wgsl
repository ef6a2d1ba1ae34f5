// One more level of a drafted tree, as `Decoder.grow` does it: the likeliest tokens of each row in its
// slices' order are its children, and the best children of all rows are the rows of the next forward.
// Of a level the tree has numbers of the nodes that go on (-1: none), tokens of all nodes, their scores;
// see engine/backend/drafted_levels.py.
struct Tree {
    slices: u32,
    width: u32,
    most: u32,
    wanted: u32,
    paths: u32,
}
@group(0) @binding(0) var<uniform> shape: Tree;
@group(0) @binding(1) var<storage, read_write> inputs: array<u32>;
@group(0) @binding(2) var<storage, read> ranked: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> tree: array<u32>;

const LANES = 256u;
const GROUP = 16u;
const LEVELS = 16u;
const IMPOSSIBLE = 0xff800000u;
var<workgroup> tokens: array<u32, LANES>;
var<workgroup> likely: array<f32, LANES>;
var<workgroup> chosen: array<u32, GROUP>;
var<private> own_row: u32;
var<private> own_top: f32;
var<private> temperature: f32;

// Entry j of a slice of the lane's row.
fn entry(slice: u32, j: u32) -> vec2<u32> {
    return ranked[(own_row * shape.slices + slice) * (shape.width + 1u) + j];
}

fn score_at(place: u32) -> f32 {
    let slice = place / shape.width;
    let score = bitcast<f32>(entry(slice, place % shape.width).x);
    if (score <= NONE) {
        return NONE;
    }
    return score + (bitcast<f32>(entry(slice, shape.width).x) - own_top) / temperature;
}

// The score of the path to a row: what the level before has noted of the node.
fn path_score(level: u32, row: u32) -> f32 {
    if (level == 0u) {
        return select(NONE, 0.0, row == 0u);
    }
    let many = shape.width * shape.width;
    let before = (level - 1u) * (shape.width + 2u * many);
    let node = tree[before + row];
    if (node == NOWHERE) {
        return NONE;
    }
    return bitcast<f32>(tree[before + shape.width + many + node % many]);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let width = shape.width;
    let many = width * width;
    let settings = shape.wanted + 2u * shape.most;
    temperature = bitcast<f32>(inputs[settings]);
    let floor = bitcast<f32>(inputs[settings + 1u]);
    let start = inputs[settings + 6u];
    let root = inputs[shape.wanted];
    let level = inputs[4u * root + 1u] + 1u - start;
    let real = select(width, 1u, level == 0u);

    // Children of the rows: 16 lanes each.
    own_row = min(lane / GROUP, real - 1u);
    let beam = lane % GROUP;
    own_top = NONE;
    for (var slice = 0u; slice < shape.slices; slice++) {
        own_top = max(own_top, bitcast<f32>(entry(slice, width).x));
    }
    var above = NONE;
    if (lane / GROUP < real && own_top < -NONE) {
        above = path_score(level, own_row);
    }
    let count = shape.slices * width;
    var own = next(beam, GROUP, count, Scored(-NONE, NOWHERE));
    var mass = 0.0;
    var peak = NONE;
    for (var j = 0u; j < width; j++) {
        let best = best_of(lane, GROUP, own);
        if (best.place == own.place) {
            own = next(beam, GROUP, count, best);
        }
        if (j == 0u) {
            peak = best.score;
            for (var slice = 0u; slice < shape.slices; slice++) {
                let score = score_at(slice * width);
                mass += exp(score - peak) * bitcast<f32>(entry(slice, width).y);
            }
        }
        if (beam == 0u && lane / GROUP < width) {
            let child = lane / GROUP * width + j;
            let possible = above > NONE && best.score > NONE;
            likely[child] = select(NONE, above + min(best.score - peak - log(mass), 0.0), possible);
            tokens[child] = 0u;
            if (possible) {
                tokens[child] = entry(best.place / width, best.place % width).y;
            }
        }
    }
    workgroupBarrier();

    // The best of all children.
    if (lane < many) {
        let child = Scored(likely[lane], lane);
        var better = 0u;
        for (var other = 0u; other < many; other++) {
            better += u32(before(Scored(likely[other], other), child));
        }
        if (better < width) {
            chosen[better] = lane;
        }
        let place = level * (width + 2u * many) + width + lane;
        tree[place] = tokens[lane];
        tree[place + many] = select(IMPOSSIBLE, bitcast<u32>(likely[lane]), likely[lane] > NONE);
    }
    workgroupBarrier();
    var together = 0.0;
    for (var row = 0u; row < width; row++) {
        together += exp(likely[chosen[row]]);
    }

    // The next level's rows. Nothing counts of levels below unlikely ones: to stop would take the host.
    let row = lane / GROUP;
    let child = chosen[min(row, width - 1u)];
    let parent = select(child / width, root, level == 0u);
    let slot = start + level * width + row;
    let path = shape.paths + 1u;
    let own_slot = beam == level;
    let known = inputs[path + child / width * LEVELS + beam];
    storageBarrier();
    if (row < width) {
        inputs[path + row * LEVELS + beam] = select(known, slot, own_slot);
        if (beam == 0u) {
            let counts = together >= floor && likely[child] > NONE;
            tree[level * (width + 2u * many) + row] = select(NOWHERE, level * many + child, counts);
            inputs[4u * row] = tokens[child];
            inputs[4u * row + 1u] = start + level;
            inputs[4u * row + 2u] = slot;
            inputs[4u * row + 3u] = 1u + row * LEVELS;
            inputs[shape.wanted + row] = row;
            inputs[shape.wanted + shape.most + row] = parent;
        }
    }
    if (lane == 0u) {
        inputs[shape.paths] = start;
    }
}
