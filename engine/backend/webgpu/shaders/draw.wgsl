// The likeliest token of each wanted row, the lowest of equals: the token, its probability, that of
// the token that was asked for, and whether all logits are numbers.
struct Drawn {
    size: u32,
    most: u32,
}
@group(0) @binding(0) var<uniform> shape: Drawn;
@group(0) @binding(1) var<storage, read> wanted: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read_write> drawn: array<vec4<u32>>;

const LANES = 128u;
var<workgroup> tops: array<f32, LANES>;
var<workgroup> tokens: array<u32, LANES>;
var<workgroup> masses: array<f32, LANES>;
var<workgroup> broken: array<u32, LANES>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let begin = at.x * shape.size;
    var top = -3.4e38;
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
        let asked = wanted[shape.most + at.x];
        var other = 0.0;
        if (asked < shape.size) {
            other = exp(logits[begin + asked] - top) / mass;
        }
        drawn[at.x] = vec4(token, bitcast<u32>(1.0 / mass), bitcast<u32>(other), odd);
    }
}
