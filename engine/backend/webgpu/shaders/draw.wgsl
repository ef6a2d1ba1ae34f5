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
// all), top-p, and what penalise.wgsl looks at.
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
    let row = at.x;
    let begin = row * shape.size;
    load_penalties();
    var top = NONE;
    var token = 0u;
    var given_top = NONE;
    var odd = 0u;
    for (var i = lane; i < shape.size; i += LANES) {
        let given = logits[begin + i];
        let value = penalised(given, i, row);
        if ((bitcast<u32>(given) & 0x7f800000u) == 0x7f800000u) {
            odd = 1u;
        } else {
            given_top = max(given_top, given);
            if (value > top) {
                top = value;
                token = i;
            }
        }
    }
    tops[lane] = top;
    tokens[lane] = token;
    masses[lane] = given_top;
    broken[lane] = odd;
    workgroupBarrier();
    for (var each = 0u; each < LANES; each++) {
        odd |= broken[each];
        given_top = max(given_top, masses[each]);
        if (tops[each] > top || (tops[each] == top && tokens[each] < token)) {
            top = tops[each];
            token = tokens[each];
        }
    }
    workgroupBarrier();

    // Where nothing is random, but penalised, scores are logits: the best two may be too close as well.
    let settings = 2u * shape.most;
    let greedy = bitcast<f32>(wanted[settings]) == 0.0;
    let certain = greedy && repetition == 0.0;
    let temperature = select(bitcast<f32>(wanted[settings]), 1.0, greedy);
    let floor = select(bitcast<f32>(wanted[settings + 1u]), NONE, greedy);
    var cut = vec4(bitcast<u32>(NONE), 0u, bitcast<u32>(NONE), 0u);
    if (wanted[settings + 5u] != 0u || bitcast<f32>(wanted[settings + 6u]) < 1.0) {
        cut = drawn[row];
    }
    var best = NONE;
    var second = NONE;
    if (!certain) {
        let seed = vec2(wanted[settings + 2u], wanted[settings + 3u]);
        let position = rows[wanted[row]].y + wanted[settings + 4u];
        for (var counter = lane; counter < (shape.size + 63u) / 64u * 16u; counter += LANES) {
            var four = vec4(0u);
            if (!greedy) {
                four = words(seed, counter, position);
            }
            for (var j = 0u; j < 4u; j++) {
                let each = counter / 16u * 64u + 16u * j + counter % 16u;
                if (each >= shape.size) {
                    continue;
                }
                let value = penalised(logits[begin + each], each, row);
                let below = value - top;
                let rare = below < floor - CLOSE || below / temperature + MOST_NOISE < second;
                if (rare || !stays(value, each, cut.xy)) {
                    continue;
                }
                let score = below / temperature + select(gumbel(four[j]), 0.0, greedy);
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
        mass += exp(logits[begin + i] - given_top);
    }
    masses[lane] = mass;
    workgroupBarrier();
    if (lane == 0u) {
        mass = 0.0;
        for (var each = 0u; each < LANES; each++) {
            mass += masses[each];
        }
        let value = penalised(logits[begin + token], token, row);
        let sure = value - top >= floor + CLOSE && stays(value, token, cut.zw);
        var flags = odd;
        if (!certain && (best - second < CLOSE || !sure)) {
            flags |= 2u;
        }
        let own = exp(logits[begin + token] - given_top) / mass;
        let asked = wanted[shape.most + row];
        var other = 0.0;
        if (asked < shape.size) {
            other = exp(logits[begin + asked] - given_top) / mass;
        }
        drawn[row] = vec4(token, bitcast<u32>(own), bitcast<u32>(other), flags);
    }
}
