const HALVES = false;
const OFFSETS = false;

// Twice 0 0.5 1 1.5 2 3 4 6, and the same below zero.
const TABLE = vec4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let both = codes[at];
    let exponent = byte_at(shape.planes.x, at);
    let power = select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u);
    return Block(
        look_up(both & NIBBLES), look_up((both >> vec4(4u)) & NIBBLES),
        vec2(bitcast<f32>(power)), vec2(0.0),
    );
}
