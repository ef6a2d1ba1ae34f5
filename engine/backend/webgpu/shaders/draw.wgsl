// The target's draw of each wanted row, as engine/native/sample.c draws: the likeliest token, the lowest
// of equals, or the best score with noise. Written are the token, its probability, that of the token that
// was asked for, and flags: 1 where not all logits are numbers, 2 where two tokens, or a token and where a
// filter cuts, are too close for fp32: then the host has to draw. Where top-k or top-p filters, `drawn`
// has what filter.wgsl has found.
struct Drawn {
    size: u32,
    most: u32,
}
// Behind `most` wanted rows: as many tokens that are asked for, then temperature, min-p's floor below
// the best logit, the seed, how far behind a row's position that of the token that it draws is, top-k (0:
// all), top-p.
@group(0) @binding(0) var<uniform> shape: Drawn;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> wanted: array<u32>;
@group(0) @binding(3) var<storage, read> logits: array<f32>;
@group(0) @binding(4) var<storage, read_write> drawn: array<vec4<u32>>;

const LANES = 128u;
const CLOSE = 1e-4;
const NONE = -3.4e38;
const MOST_NOISE = 23.0;
var<workgroup> tops: array<f32, LANES>;
var<workgroup> tokens: array<u32, LANES>;
var<workgroup> masses: array<f32, LANES>;
var<workgroup> broken: array<u32, LANES>;

// Whether a token comes before a cut or is the last one before it.
fn stays(value: f32, token: u32, cut: vec2<u32>) -> bool {
    let last = bitcast<f32>(cut.x);
    return value > last || (value == last && token <= cut.y);
}

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let begin = at.x * shape.size;
    var top = NONE;
    var token = 0u;
    var odd = 0u;
    for (var i = lane; i < shape.size; i += LANES) {
        let value = logits[begin + i];
        if ((bitcast<u32>(value) & 0x7f800000u) == 0x7f800000u) {
            odd = 1u;
        } else if (value > top) {
            top = value;
            token = i;
        }
    }
    tops[lane] = top;
    tokens[lane] = token;
    broken[lane] = odd;
    workgroupBarrier();
    for (var each = 0u; each < LANES; each++) {
        odd |= broken[each];
        if (tops[each] > top || (tops[each] == top && tokens[each] < token)) {
            top = tops[each];
            token = tokens[each];
        }
    }
    workgroupBarrier();

    let given = 2u * shape.most;
    let temperature = bitcast<f32>(wanted[given]);
    let floor = bitcast<f32>(wanted[given + 1u]);
    var cut = vec4(bitcast<u32>(NONE), 0u, bitcast<u32>(NONE), 0u);
    if (wanted[given + 5u] != 0u || bitcast<f32>(wanted[given + 6u]) < 1.0) {
        cut = drawn[at.x];
    }
    var best = NONE;
    var second = NONE;
    if (temperature > 0.0) {
        let seed = vec2(wanted[given + 2u], wanted[given + 3u]);
        let position = rows[wanted[at.x]].y + wanted[given + 4u];
        for (var counter = lane; counter < (shape.size + 63u) / 64u * 16u; counter += LANES) {
            let four = words(seed, counter, position);
            for (var j = 0u; j < 4u; j++) {
                let each = counter / 16u * 64u + 16u * j + counter % 16u;
                if (each >= shape.size) {
                    continue;
                }
                let value = logits[begin + each];
                let below = value - top;
                let rare = below < floor - CLOSE || below / temperature + MOST_NOISE < second;
                if (rare || !stays(value, each, cut.xy)) {
                    continue;
                }
                let score = below / temperature + gumbel(four[j]);
                if (score > best) {
                    second = best;
                    best = score;
                    token = each;
                } else {
                    second = max(second, score);
                }
            }
        }
    }
    tops[lane] = best;
    tokens[lane] = token;
    masses[lane] = second;
    workgroupBarrier();
    if (lane == 0u) {
        for (var each = 1u; each < LANES; each++) {
            second = max(max(second, masses[each]), min(best, tops[each]));
            if (tops[each] > best) {
                best = tops[each];
                token = tokens[each];
            }
        }
    }
    workgroupBarrier();

    var mass = 0.0;
    for (var i = lane; i < shape.size; i += LANES) {
        mass += exp(logits[begin + i] - top);
    }
    masses[lane] = mass;
    workgroupBarrier();
    if (lane == 0u) {
        mass = 0.0;
        for (var each = 0u; each < LANES; each++) {
            mass += masses[each];
        }
        let below = logits[begin + token] - top;
        var flags = odd;
        let sure = below >= floor + CLOSE && stays(logits[begin + token], token, cut.zw);
        if (temperature > 0.0 && (best - second < CLOSE || !sure)) {
            flags |= 2u;
        }
        let asked = wanted[shape.most + at.x];
        var other = 0.0;
        if (asked < shape.size) {
            other = exp(logits[begin + asked] - top) / mass;
        }
        drawn[at.x] = vec4(token, bitcast<u32>(exp(below) / mass), bitcast<u32>(other), flags);
    }
}
