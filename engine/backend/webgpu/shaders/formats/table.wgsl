// Nibbles, one to a byte, replaced by what TABLE has for them.
fn look_up(nibbles: vec4<u32>) -> vec4<u32> {
    var found = vec4(0u);
    for (var shift = 0u; shift < 32u; shift += 8u) {
        let nibble = (nibbles >> vec4(shift)) & vec4(15u);
        found |= vec4(entry(nibble.x), entry(nibble.y), entry(nibble.z), entry(nibble.w)) << vec4(shift);
    }
    return found;
}

fn entry(nibble: u32) -> u32 {
    let pair = select(TABLE.xy, TABLE.zw, nibble >= 8u);
    return (select(pair.x, pair.y, (nibble & 4u) != 0u) >> (nibble % 4u * 8u)) & 0xffu;
}
