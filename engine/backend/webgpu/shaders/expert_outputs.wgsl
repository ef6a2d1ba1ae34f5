// The same of experts, whose matrices lie one below the other: a tile's rows are places of one expert, as
// route.wgsl has put them together. `shape.first` is the number of the first row that is held here.
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;
@group(0) @binding(7) var<storage, read> routes: array<u32>;

// Expert, first of the sorted places, their number: none behind the last tile.
fn part(tile: u32, which: u32) -> u32 { return routes[3u * tile + which]; }

fn place_of(tile: u32, row: u32) -> u32 {
    return routes[shape.sorted + part(tile, 1u) + row];
}

// In rows that are held here; others wrap around to large numbers.
fn held_row(tile: u32, output: u32) -> u32 {
    return part(tile, 0u) * shape.outputs + output - shape.first;
}

fn weights_row(tile: u32, output: u32) -> u32 {
    return min(held_row(tile, min(output, shape.outputs - 1u)), shape.held - 1u);
}

fn given_row(tile: u32, row: u32) -> u32 {
    return place_of(tile, min(row, max(part(tile, 2u), 1u) - 1u)) / shape.sharing;
}

fn store(tile: u32, output: u32, row: u32, sum: f32) {
    if (output >= shape.outputs || row >= part(tile, 2u) || held_row(tile, output) >= shape.held) {
        return;
    }
    var found = sum;
    if (shape.biased != 0u) {
        found += bias[part(tile, 0u) * shape.stride + shape.column + output];
    }
    result[place_of(tile, row) * shape.stride + shape.column + output] = found;
}
