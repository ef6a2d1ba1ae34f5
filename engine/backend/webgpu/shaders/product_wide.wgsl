// Products of a matrix with 8 * ROWS rows, for prompts: 64 outputs and all rows share what is read of
// both. The sums are those of product.wgsl, bit for bit: of every 16th block, then of these in their order.
const TOGETHER = 8u * ROWS;
const LANES = 16u;
const GROUPS = 16u;
const OUTPUTS = 64u;

var<workgroup> shared_weights: array<Weights, OUTPUTS>;
var<workgroup> shared_rows: array<Given, TOGETHER>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) at: vec3<u32>) {
    let first = at.x * OUTPUTS;
    let output = index % GROUPS;
    let row = index / GROUPS;
    // each row
    var total_$ = vec4(0.0);
    // end
    for (var lane = 0u; lane < LANES; lane++) {
        // each row
        var sum_$ = vec4(0.0);
        // end
        for (var block = lane; block < shape.blocks; block += LANES) {
            workgroupBarrier();
            if (index < OUTPUTS) {
                shared_weights[index] = load(weights_row(at.y, first + index), block);
            } else if (index - OUTPUTS < TOGETHER) {
                shared_rows[index - OUTPUTS] = given_block(given_row(at.y, index - OUTPUTS), block);
            }
            workgroupBarrier();
            let w0 = shared_weights[output];
            let w1 = shared_weights[output + GROUPS];
            let w2 = shared_weights[output + 2u * GROUPS];
            let w3 = shared_weights[output + 3u * GROUPS];
            // each row
            {
                let x = shared_rows[row + 8u * $u];
                sum_$ = vec4(add(w0, x, sum_$.x), add(w1, x, sum_$.y), add(w2, x, sum_$.z), add(w3, x, sum_$.w));
            }
            // end
        }
        // each row
        total_$ += sum_$;
        // end
    }
    for (var each = 0u; each < 4u; each++) {
        // each row
        store(at.y, first + output + each * GROUPS, row + 8u * $u, total_$[each]);
        // end
    }
}
