const HALVES = false;
const OFFSETS = false;

fn load_block(row: u32, block: u32) -> Block {
    let at = row * shape.blocks + block;
    let whole = at / 8u;
    let part = block % 8u;
    let both = codes[at];
    let low = byte_at(shape.planes.z, whole * 4u + part / 2u) >> (part % 2u * 4u);
    let pair = (scales[shape.planes.y + whole / 2u] >> (whole % 2u * 16u)) >> (part * 2u);
    let small = f32(i32((low & 15u) | ((pair & 3u) << 4u)) - 32);
    let scale = half_at(shape.planes.x, whole) * small;
    return Block(look_up(both & NIBBLES), look_up((both >> vec4(4u)) & NIBBLES), vec2(scale), vec2(0.0));
}
