// Logits after the penalties, as engine/native/sample.c has them, of tokens said before a row's and on
// its path. At the end of the settings: what is said again is divided by (0: nothing is penalised), what
// is subtracted once and each time, and which node of the tree the first wanted row is. `heard`: the nodes
// on the path of each of `most` nodes as bits of two words, tokens of the nodes, and, by token, 4 times how
// often it was said in the answer, 2 where a node has it, 1 where it was said at all.
@group(0) @binding(5) var<storage, read> heard: array<u32>;

var<private> repetition: f32;
var<private> presence: f32;
var<private> frequency: f32;
var<private> first_node: u32;

fn load_penalties() {
    let settings = 2u * shape.most;
    repetition = bitcast<f32>(wanted[settings + 7u]);
    presence = bitcast<f32>(wanted[settings + 8u]);
    frequency = bitcast<f32>(wanted[settings + 9u]);
    first_node = wanted[settings + 10u];
}

fn times_on_path(token: u32, node: u32) -> u32 {
    var times = 0u;
    for (var word = 0u; word < 2u; word++) {
        for (var nodes = heard[word * shape.most + node]; nodes != 0u; nodes &= nodes - 1u) {
            times += u32(heard[2u * shape.most + 32u * word + firstTrailingBit(nodes)] == token);
        }
    }
    return times;
}

fn penalised(value: f32, token: u32, row: u32) -> f32 {
    if (repetition == 0.0) {
        return value;
    }
    let known = heard[3u * shape.most + token];
    var on_path = 0u;
    if ((known & 2u) != 0u) {
        on_path = times_on_path(token, first_node + row);
    }
    let times = (known >> 2u) + on_path;
    if ((known & 1u) + on_path == 0u) {
        return value;
    }
    let less = select(value * repetition, value / repetition, value > 0.0);
    return less - select(0.0, fma(frequency, f32(times), presence), times != 0u);
}
