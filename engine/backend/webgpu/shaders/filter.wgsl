// Where top-k and top-p cut a row's order (higher logit first, then lower token), as
// engine/native/filter.c finds it: logits fall into bins, and the tokens of a bin in which one cuts are
// put in order. Written are the last token that may stay and the last one that stays for sure, each as
// (logit, token). They differ where too many tokens share a bin, and within SLACK of top-p, as exp is not
// the CPU's.
struct Filtered {
    size: u32,
    most: u32,
}
@group(0) @binding(0) var<uniform> shape: Filtered;
@group(0) @binding(1) var<storage, read> wanted: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read_write> drawn: array<vec4<u32>>;

const LANES = 128u;
const BINS = 512u;
const TAIL = BINS - 1u;
const SCALE = 23.0;
const LONGEST = 512u;
const SLACK = 3e-5;
const ROUNDING = 1e-4;
const LOWEST = -3.0e38;
const NOWHERE = 0xffffffffu;
var<workgroup> tops: array<f32, LANES>;
var<workgroup> counts: array<atomic<u32>, BINS>;
var<workgroup> low: array<atomic<u32>, BINS>;
var<workgroup> high: array<atomic<u32>, BINS>;
var<workgroup> length: atomic<u32>;
var<workgroup> values: array<f32, LONGEST>;
var<workgroup> tokens: array<u32, LONGEST>;
var<workgroup> order: array<u32, LONGEST>;
var<workgroup> cut_bin: u32;
var<private> row: u32;
var<private> top: f32;

fn logit(token: u32) -> f32 {
    return penalised(logits[row * shape.size + token], token, row);
}

// Its bin; the tail is of those that weigh nothing, and of what is no number.
fn bin_of(value: f32) -> u32 {
    if (!(value > LOWEST && value <= top)) {
        return TAIL;
    }
    return u32(min((top - value) * SCALE + 0.5, f32(TAIL)));
}

// exp(value - top) in units of 2^-30.
fn weight(value: f32) -> u32 {
    return u32(exp(value - top) * 1073741824.0 + 0.5);
}

// Sums of 64 bits.
fn plus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sum = a.x + b.x;
    return vec2(sum, a.y + b.y + u32(sum < a.x));
}

fn number(a: vec2<u32>) -> f32 {
    return fma(f32(a.y), 4294967296.0, f32(a.x));
}

fn mass_of(bin: u32) -> vec2<u32> {
    return vec2(atomicLoad(&low[bin]), atomicLoad(&high[bin]));
}

// Cuts before a bin and behind it, with some room for rounding.
fn above(bin: u32) -> vec2<u32> {
    return vec2(bitcast<u32>(top - (f32(bin) - 0.5) / SCALE + ROUNDING), 0u);
}

fn through(bin: u32) -> vec2<u32> {
    let value = select(top - (f32(bin) + 0.5) / SCALE - ROUNDING, LOWEST, bin == TAIL);
    return vec2(bitcast<u32>(value), NOWHERE);
}

fn earlier(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let one = bitcast<f32>(a.x);
    let other = bitcast<f32>(b.x);
    return select(b, a, one > other || (one == other && a.y < b.y));
}

// Token i of a sorted bin.
fn entry(i: u32) -> vec2<u32> {
    return vec2(bitcast<u32>(values[order[i]]), tokens[order[i]]);
}

// Puts the tokens of a bin in order.
fn sort(lane: u32, bin: u32) {
    if (lane == 0u) {
        atomicStore(&length, 0u);
    }
    workgroupBarrier();
    if (bin < TAIL) {
        for (var i = lane; i < shape.size; i += LANES) {
            let value = logit(i);
            if (bin_of(value) == bin) {
                let place = atomicAdd(&length, 1u);
                if (place < LONGEST) {
                    values[place] = value;
                    tokens[place] = i;
                }
            }
        }
    }
    workgroupBarrier();
    let count = min(atomicLoad(&length), LONGEST);
    for (var i = lane; i < count; i += LANES) {
        var before = 0u;
        for (var other = 0u; other < count; other++) {
            let higher = values[other] > values[i];
            before += u32(higher || (values[other] == values[i] && tokens[other] < tokens[i]));
        }
        order[before] = i;
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    row = at.x;
    load_penalties();
    top = LOWEST;
    for (var i = lane; i < shape.size; i += LANES) {
        let value = logit(i);
        if ((bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u) {
            top = max(top, value);
        }
    }
    tops[lane] = top;
    for (var bin = lane; bin < BINS; bin += LANES) {
        atomicStore(&counts[bin], 0u);
        atomicStore(&low[bin], 0u);
        atomicStore(&high[bin], 0u);
    }
    workgroupBarrier();
    for (var each = 0u; each < LANES; each++) {
        top = max(top, tops[each]);
    }
    for (var i = lane; i < shape.size; i += LANES) {
        let value = logit(i);
        let bin = bin_of(value);
        if (bin < TAIL) {
            let own = weight(value);
            atomicAdd(&counts[bin], 1u);
            if (atomicAdd(&low[bin], own) > NOWHERE - own) {
                atomicAdd(&high[bin], 1u);
            }
        }
    }
    workgroupBarrier();

    // Top-k: the bin of the k-th token, that token, and the weight of those that it keeps.
    let top_k = wanted[2u * shape.most + 5u];
    let top_p = bitcast<f32>(wanted[2u * shape.most + 6u]);
    var left = top_k;
    var total = vec2(0u);
    if (lane == 0u) {
        var bin = 0u;
        while (bin < TAIL && (top_k == 0u || atomicLoad(&counts[bin]) < left)) {
            left -= atomicLoad(&counts[bin]);
            total = plus(total, mass_of(bin));
            bin++;
        }
        cut_bin = bin;
    }
    workgroupBarrier();
    let last = cut_bin;
    sort(lane, last);
    var sure = vec2(bitcast<u32>(LOWEST), NOWHERE);
    var maybe = sure;
    var doubt = 0.0;
    if (lane == 0u && top_k != 0u) {
        sure = above(last);
        maybe = through(last);
        if (last < TAIL && atomicLoad(&length) <= LONGEST) {
            for (var i = 0u; i < left; i++) {
                total = plus(total, vec2(weight(values[order[i]]), 0u));
            }
            sure = entry(left - 1u);
            maybe = sure;
        } else if (last < TAIL) {
            doubt = number(mass_of(last));
            total = plus(total, mass_of(last));
        }
    }

    // Top-p of those: the bins in which their sum comes to it.
    let enough = top_p * number(total);
    let slack = fma(SLACK, number(total), doubt);
    var sum = vec2(0u);
    if (lane == 0u) {
        cut_bin = TAIL;
        if (top_p < 1.0) {
            var bin = 0u;
            while (bin < last && number(plus(sum, mass_of(bin))) < enough - slack) {
                sum = plus(sum, mass_of(bin));
                bin++;
            }
            sure = earlier(sure, above(bin));
            cut_bin = bin;
            for (var more = sum; bin < last && number(plus(more, mass_of(bin))) < enough + slack; bin++) {
                more = plus(more, mass_of(bin));
                cut_bin = TAIL;
            }
            maybe = earlier(maybe, through(bin));
        }
    }
    workgroupBarrier();
    let second = cut_bin;
    sort(lane, second);
    if (lane == 0u) {
        if (second < TAIL && atomicLoad(&length) <= LONGEST) {
            let count = select(atomicLoad(&length), left, second == last);
            for (var i = 0u; i < count; i++) {
                if (i == 0u || number(sum) < enough + slack) {
                    maybe = entry(i);
                }
                if (i == 0u || number(sum) < enough - slack) {
                    sure = entry(i);
                }
                sum = plus(sum, vec2(weight(values[order[i]]), 0u));
            }
        }
        drawn[at.x] = vec4(maybe, sure);
    }
}
