// Stored weights, 32 numbers of a row at a time: number i is code[i] * scale + offset, with a scale and
// an offset for each half. Codes are signed bytes. Each file in formats/ defines
//     const HALVES: bool    whether the halves have scales of their own
//     const OFFSETS: bool   whether there are offsets
//     fn load_block(row: u32, block: u32) -> Block
struct Block {
    low: vec4<u32>,
    high: vec4<u32>,
    scale: vec2<f32>,
    offset: vec2<f32>,
}

// The bytes, each below 128, less those of `bias`.
fn less(bytes: vec4<u32>, bias: u32) -> vec4<u32> {
    return ((bytes | vec4(0x80808080u)) - vec4(bias)) ^ vec4(0x80808080u);
}

// Place `index` of a plane of 16-bit floats.
fn half_at(plane: u32, index: u32) -> f32 {
    return widen_half((scales[plane + index / 2u] >> (index % 2u * 16u)) & 0xffffu);
}

// Place `index` of a plane of bytes.
fn byte_at(plane: u32, index: u32) -> u32 {
    return (scales[plane + index / 4u] >> (index % 4u * 8u)) & 0xffu;
}

// Four words of a plane of words.
fn words_at(plane: u32, index: u32) -> vec4<u32> {
    let at = plane + index;
    return vec4(scales[at], scales[at + 1u], scales[at + 2u], scales[at + 3u]);
}

// The lowest 4 bits, one to a byte.
fn spread_bits(bits: u32) -> u32 {
    return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}

// 16 bits, one to a byte.
fn spread_word(bits: u32) -> vec4<u32> {
    return vec4(spread_bits(bits), spread_bits(bits >> 4u), spread_bits(bits >> 8u), spread_bits(bits >> 12u));
}

const NIBBLES = vec4(0x0f0f0f0fu);
const PAIRS = vec4(0x03030303u);
const ONES = vec4(0x01010101u);
