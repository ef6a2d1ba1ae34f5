// The likeliest tokens of a slice of a row's logits, as engine/backend/ranking.py ranks them: by
// logit / temperature, with the noise of the target's draws where that is shared. Behind their scores,
// counted from the slice's best logit, come that logit and the sum of exp(score - best score).
struct Slices {
    size: u32,
    slices: u32,
    width: u32,
    most: u32,
    named: u32,
}
@group(0) @binding(0) var<uniform> shape: Slices;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> wanted: array<u32>;
@group(0) @binding(3) var<storage, read> names: array<f32>;
@group(0) @binding(4) var<storage, read> logits: array<f32>;
@group(0) @binding(5) var<storage, read_write> ranked: array<vec2<u32>>;

const LANES = 128u;
const SLICE = 2048u;
const BROKEN = 3.4e38;
var<workgroup> scores: array<f32, SLICE>;

fn score_at(place: u32) -> f32 {
    return scores[place];
}

fn noise_of(token: u32, position: u32, seed: vec2<u32>) -> f32 {
    return gumbel(words(seed, token / 64u * 16u + token % 16u, position)[token / 16u % 4u]);
}

fn name_of(column: u32) -> u32 {
    if (shape.named != 0u) {
        return u32(names[column]);
    }
    return column;
}

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let first = at.x * SLICE;
    let count = min(shape.size - first, SLICE);
    var top = Scored(NONE, NOWHERE);
    for (var i = lane; i < count; i += LANES) {
        var value = logits[at.y * shape.size + first + i];
        let bits = bitcast<u32>(value);
        if (bits == 0xff800000u) {
            value = NONE;
        } else if ((bits & 0x7f800000u) == 0x7f800000u) {
            value = BROKEN;
        }
        scores[i] = value;
        if (value > top.score) {
            top = Scored(value, i);
        }
    }
    top = best_of(lane, LANES, top);

    let settings = 2u * shape.most;
    let temperature = bitcast<f32>(wanted[settings]);
    let seed = vec2(wanted[settings + 2u], wanted[settings + 3u]);
    let position = rows[wanted[at.y]].y + wanted[settings + 4u];
    let noisy = wanted[settings + 5u] != 0u;
    for (var i = lane; i < count; i += LANES) {
        if (scores[i] > NONE) {
            var score = (scores[i] - top.score) / temperature;
            if (noisy) {
                score += noise_of(name_of(first + i), position, seed);
            }
            scores[i] = score;
        }
    }
    workgroupBarrier();

    let begin = (at.y * shape.slices + at.x) * (shape.width + 1u);
    var own = next(lane, LANES, count, Scored(-NONE, NOWHERE));
    var peak = NONE;
    for (var j = 0u; j < shape.width; j++) {
        let best = best_of(lane, LANES, own);
        if (best.place == own.place) {
            own = next(lane, LANES, count, best);
        }
        if (j == 0u) {
            peak = best.score;
        }
        if (lane == 0u) {
            ranked[begin + j] = vec2(bitcast<u32>(best.score), name_of(min(first + best.place, shape.size - 1u)));
        }
    }
    var mass = 0.0;
    for (var i = lane; i < count; i += LANES) {
        mass += exp(scores[i] - peak);
    }
    found[lane] = Scored(mass, 0u);
    workgroupBarrier();
    if (lane == 0u) {
        mass = 0.0;
        for (var each = 0u; each < LANES; each++) {
            mass += found[each].score;
        }
        ranked[begin + shape.width] = vec2(bitcast<u32>(top.score), bitcast<u32>(mass));
    }
}
