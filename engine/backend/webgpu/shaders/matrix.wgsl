// A matrix, or some rows of it, in its file's format.
//   outputs  rows here
//   blocks   blocks of a row: 32 numbers of codes, 8 of floats
//   column   where the first row's result goes
//   stride   from one row of results to the next
//   planes   words at which the planes behind the codes begin in `scales`
//   first    the first row's number in the whole matrix
//   held     of experts: rows here; `outputs` are one expert's
//   sorted   of experts: where the places begin in `routes`
//   sharing  of experts: places that share a row of activations
struct Shape {
    outputs: u32,
    blocks: u32,
    column: u32,
    stride: u32,
    planes: vec4<u32>,
    first: u32,
    biased: u32,
    held: u32,
    sorted: u32,
    sharing: u32,
}
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
