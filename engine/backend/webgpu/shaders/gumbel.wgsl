// Gumbel noise keyed by (seed, position, token): the bits of engine/native/noise.h, made numbers in
// fp32. WGSL's own log is too rough near 1, so logarithms are 2 artanh s by its series.

// The low and the high half of a product.
fn wide(a: u32, b: u32) -> vec2<u32> {
    let a1 = a >> 16u;
    let b1 = b >> 16u;
    let middle = a1 * (b & 0xffffu) + ((a & 0xffffu) * (b & 0xffffu) >> 16u);
    let other = (a & 0xffffu) * b1 + (middle & 0xffffu);
    return vec2(a * b, a1 * b1 + (middle >> 16u) + (other >> 16u));
}

// Four words of Philox4x32-10: those of tokens 64 g + 16 j + i, j = 0..3, of counter 16 g + i.
fn words(seed: vec2<u32>, counter: u32, position: u32) -> vec4<u32> {
    var c = vec4(counter, position, 0u, 0u);
    var key = seed;
    for (var round = 0u; round < 10u; round++) {
        let a = wide(c.x, 0xD2511F53u);
        let b = wide(c.z, 0xCD9E8D57u);
        c = vec4(b.y ^ c.y ^ key.x, b.x, a.y ^ c.w ^ key.y, a.x);
        key += vec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// 2 artanh s for |s| <= 1/3.
fn twice_artanh(s: f32) -> f32 {
    let z = s * s;
    var sum = 1.0 / 13.0;
    sum = fma(sum, z, 1.0 / 11.0);
    sum = fma(sum, z, 1.0 / 9.0);
    sum = fma(sum, z, 1.0 / 7.0);
    sum = fma(sum, z, 1.0 / 5.0);
    sum = fma(sum, z, 1.0 / 3.0);
    return 2.0 * s * fma(sum, z, 1.0);
}

// x = 2^k m with m from sqrt 1/2 to sqrt 2.
fn ln(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let k = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
    let m = bitcast<f32>(bits - (bitcast<u32>(k) << 23u));
    return fma(f32(k), 0.6931472, twice_artanh((m - 1.0) / (m + 1.0)));
}

// -ln(-ln u); the half of the unit interval that is nearer to 1 is counted from there.
fn gumbel(word: u32) -> f32 {
    let upper = word > 0x7fffffffu;
    let near = (f32(select(word, ~word, upper)) + 0.5) * 2.3283064e-10;
    return -ln(-select(ln(near), twice_artanh(-near / (2.0 - near)), upper));
}
