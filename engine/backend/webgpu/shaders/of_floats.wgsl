// Eight floats of a row at a time, times activations as they are.
@group(0) @binding(3) var<storage, read> given: array<vec4<f32>>;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

alias Weights = Eight;
alias Given = Eight;

fn given_block(row: u32, eight: u32) -> Eight {
    let at = 2u * (row * shape.blocks + eight);
    return Eight(given[at], given[at + 1u]);
}

fn load(row: u32, eight: u32) -> Eight {
    return load_eight(row, eight);
}

fn add(w: Eight, x: Eight, before: f32) -> f32 {
    var sum = fma(w.low.x, x.low.x, before);
    sum = fma(w.low.y, x.low.y, sum);
    sum = fma(w.low.z, x.low.z, sum);
    sum = fma(w.low.w, x.low.w, sum);
    sum = fma(w.high.x, x.high.x, sum);
    sum = fma(w.high.y, x.high.y, sum);
    sum = fma(w.high.z, x.high.z, sum);
    return fma(w.high.w, x.high.w, sum);
}
