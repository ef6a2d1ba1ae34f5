// A head of a node's queries or keys, or 64 other numbers of it, as a state takes them: queries, keys and values
// go through a convolution along the node's path and SiLU, and heads of queries and keys are scaled to
// length 1; behind them come the shares and the decays. engine/native/delta.c has the equations.
//
// layer: of each channel the weights of its convolution, the oldest token's first; of each head its rate, then
// its bias.
struct Convolved {
    key_heads: u32,
    key_dim: u32,
    channels: u32,
    heads: u32,
    width: u32,
    mixed: u32,
}
@group(0) @binding(0) var<uniform> shape: Convolved;
@group(0) @binding(2) var<storage, read> given: array<f32>;
@group(0) @binding(3) var<storage, read> kept: array<f32>;
@group(0) @binding(4) var<storage, read> layer: array<f32>;
@group(0) @binding(5) var<storage, read_write> ready: array<f32>;

const LANES = 64u;
var<workgroup> squares: array<f32, LANES>;

// What an entry had in a column; in rows of the pass, gates lie between the channels and the others.
fn seen(entry: u32, column: u32) -> f32 {
    let place = walk[ENTRIES + 2u * entry];
    if (place == -1) {
        return 0.0;
    }
    if (place >= 0) {
        return kept[u32(place) * (shape.channels + 2u * shape.heads) + column];
    }
    let begin = u32(-2 - place) * (shape.channels + shape.mixed + 2u * shape.heads);
    return given[begin + column + select(shape.mixed, 0u, column < shape.channels)];
}

fn convolved(entry: u32, column: u32) -> f32 {
    var above = entry;
    var values: array<f32, 8>;
    for (var t = shape.width; t > 0u; t--) {
        values[t - 1u] = seen(above, column);
        above = u32(walk[ENTRIES + 2u * above + 1u]);
    }
    var sum = 0.0;
    for (var t = 0u; t < shape.width; t++) {
        sum = fma(values[t], layer[column * shape.width + t], sum);
    }
    return sum / (1.0 + exp(-sum));
}

// log(1 + exp(x)), by the series of atanh as in engine/native/delta_rows.h: log is less exact on some devices.
fn softplus(x: f32) -> f32 {
    let u = exp(-abs(x));
    let s = u / (2.0 + u);
    let z = s * s;
    var p = 2.0 / 15.0;
    for (var power = 13; power > 0; power -= 2) {
        p = fma(p, z, 2.0 / f32(power));
    }
    return fma(p, s, max(x, 0.0));
}

// exp(rate * softplus(alpha + bias))
fn decay(entry: u32, column: u32) -> f32 {
    let rate = shape.channels * shape.width + column - shape.channels - shape.heads;
    return exp(layer[rate] * softplus(seen(entry, column) + layer[rate + shape.heads]));
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let entry = shape.width - 1u + at.y;
    let columns = shape.channels + 2u * shape.heads;
    let scaled = 2u * shape.key_heads;
    var begin = at.x * shape.key_dim;
    var end = begin + shape.key_dim;
    if (at.x >= scaled) {
        begin = scaled * shape.key_dim + (at.x - scaled) * LANES;
        end = min(begin + LANES, columns);
    }
    var square = 0.0;
    for (var column = begin + lane; column < end; column += LANES) {
        var value = 0.0;
        if (column < shape.channels) {
            value = convolved(entry, column);
        } else if (column < shape.channels + shape.heads) {
            value = 1.0 / (1.0 + exp(-seen(entry, column)));
        } else {
            value = decay(entry, column);
        }
        square = fma(value, value, square);
        ready[at.y * columns + column] = value;
    }
    if (at.x >= scaled) {
        return;
    }
    squares[lane] = square;
    workgroupBarrier();
    var sum = 0.0;
    for (var each = 0u; each < LANES; each++) {
        sum += squares[each];
    }
    var scale = 1.0 / sqrt(sum + 1.0e-6);
    if (at.x < shape.key_heads) {
        scale = scale / sqrt(f32(shape.key_dim));
    }
    for (var column = begin + lane; column < end; column += LANES) {
        ready[at.y * columns + column] *= scale;
    }
}
