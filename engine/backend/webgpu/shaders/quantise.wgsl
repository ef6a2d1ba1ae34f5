// Activations as products take them: in fp32, and in blocks of 32 as 8-bit integers with
// (scale, scale * sum of all, scale * sum of the first half, scale * sum of the second).
fn keep(values: ptr<function, array<f32, 32>>, row: u32, block: u32) {
    let start = row * act_stride() + block * 32u;
    let count = min(act_stride() - block * 32u, 32u);
    for (var i = 0u; i < count; i++) {
        floats[start + i] = (*values)[i];
    }
    // A block with a number that is none has that for its scale, so that no product of it is a number.
    var top = 0.0;
    var broken = false;
    for (var i = 0u; i < 32u; i++) {
        if ((bitcast<u32>((*values)[i]) & 0x7f800000u) == 0x7f800000u) {
            top = (*values)[i];
            broken = true;
        } else if (!broken) {
            top = max(top, abs((*values)[i]));
        }
    }
    var inverse = 0.0;
    if (!broken && top > 7.5e-37) {
        inverse = 127.0 / top;
    }
    var words: array<u32, 8>;
    var low = 0;
    var high = 0;
    for (var i = 0u; i < 8u; i++) {
        let four = vec4((*values)[4u * i], (*values)[4u * i + 1u], (*values)[4u * i + 2u], (*values)[4u * i + 3u]);
        let rounded = select(vec4<i32>(round(four * inverse)), vec4(0), broken);
        let sum = rounded.x + rounded.y + rounded.z + rounded.w;
        if (i < 4u) {
            low += sum;
        } else {
            high += sum;
        }
        words[i] = pack4xI8(rounded);
    }
    let scale = top / 127.0;
    let at = row * act_blocks() + block;
    given[2u * at] = vec4(words[0], words[1], words[2], words[3]);
    given[2u * at + 1u] = vec4(words[4], words[5], words[6], words[7]);
    factors[at] = vec4(scale, f32(low + high) * scale, f32(low) * scale, f32(high) * scale);
}
