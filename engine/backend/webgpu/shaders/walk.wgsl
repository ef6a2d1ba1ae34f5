// What a pass asks of states, as states.py puts it together:
//   0  the node of the first row; nodes are committed tokens that a state takes in, staged ones, rows
//   1  steps of the walk
//   2  steps after which the state is written; 0: it is not
//   3  whether there is no state yet
//   PLACES   for each row, where it is kept
//   ENTRIES  the tokens before the first node that a convolution sees, then nodes: where each one's row is
//            (kept at a place; -1: before the text; -2 - r: row r of the pass), and the entry above it
//   STEPS    nodes in the order of the walk, with ANEW where it begins again with the written state
@group(0) @binding(1) var<storage, read> walk: array<i32>;

const PLACES = 4u;
const ENTRIES = 68u;
const STEPS = 338u;
const ANEW = 256u;
