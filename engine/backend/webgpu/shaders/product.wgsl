// Products of a matrix with ROWS rows. 16 lanes share four outputs, every 16th block each, and their
// sums meet in the order of the lanes: what a row gives is the same whatever is beside it. All that is
// added goes through fma, so that no compiler has a choice.
const TOGETHER = ROWS;
const LANES = 16u;
const GROUPS = 4u;
const OUTPUTS = 4u;

var<workgroup> sums: array<f32, GROUPS * LANES * ROWS>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let lane = index % LANES;
    let first = (at.x * GROUPS + index / LANES) * OUTPUTS;
    // each row
    var sum_$ = vec4(0.0);
    // end
    for (var block = lane; block < shape.blocks; block += LANES) {
        let w0 = load(weights_row(at.y, first), block);
        let w1 = load(weights_row(at.y, first + 1u), block);
        let w2 = load(weights_row(at.y, first + 2u), block);
        let w3 = load(weights_row(at.y, first + 3u), block);
        // each row
        {
            let x = given_block(given_row(at.y, $u), block);
            sum_$ = vec4(add(w0, x, sum_$.x), add(w1, x, sum_$.y), add(w2, x, sum_$.z), add(w3, x, sum_$.w));
        }
        // end
    }
    for (var output = 0u; output < OUTPUTS; output++) {
        // each row
        sums[index * ROWS + $u] = sum_$[output];
        // end
        workgroupBarrier();
        if (index < GROUPS * ROWS) {
            let begin = index / ROWS * LANES;
            let row = index % ROWS;
            var sum = 0.0;
            for (var each = 0u; each < LANES; each++) {
                sum += sums[(begin + each) * ROWS + row];
            }
            store(at.y, (at.x * GROUPS + index / ROWS) * OUTPUTS + output, row, sum);
        }
        workgroupBarrier();
    }
}
