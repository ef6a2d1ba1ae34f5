// Blocks of 32 codes times activations of 8 bits: exact in integers, then scaled.
@group(0) @binding(3) var<storage, read> given: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> factors: array<vec4<f32>>;

struct Given {
    low: vec4<u32>,
    high: vec4<u32>,
    factors: vec4<f32>,
}

fn given_block(row: u32, block: u32) -> Given {
    let at = row * shape.blocks + block;
    return Given(given[2u * at], given[2u * at + 1u], factors[at]);
}

alias Weights = Block;

fn load(row: u32, block: u32) -> Block {
    return load_block(row, block);
}

fn sixteen(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

fn add(w: Block, x: Given, before: f32) -> f32 {
    var sum = before;
    let low = sixteen(w.low, x.low);
    let high = sixteen(w.high, x.high);
    if (HALVES) {
        sum = fma(f32(low), w.scale.x * x.factors.x, sum);
        sum = fma(f32(high), w.scale.y * x.factors.x, sum);
    } else {
        sum = fma(f32(low + high), w.scale.x * x.factors.x, sum);
    }
    if (OFFSETS && HALVES) {
        sum = fma(w.offset.x, x.factors.z, sum);
        sum = fma(w.offset.y, x.factors.w, sum);
    } else if (OFFSETS) {
        sum = fma(w.offset.x, x.factors.y, sum);
    }
    return sum;
}
