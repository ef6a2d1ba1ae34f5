"""The kernels of a product: activations made ready, sums of stretches, stretches added up.

Of Triton's own library only what is built in is called: the rest is compiled, or interpreted,
according to how Triton was first imported.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sum_stretches(
    codes,
    high,
    packed,
    scales,
    x,
    out,
    peaks,
    rows,
    blocks,
    steps,
    each,
    out_stride,
    magic,
    RAW: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    EVEN: tl.constexpr,
    PAIR: tl.constexpr,
    WHOLE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """A stretch of ROWS rows of a matrix times 16 activations, or two times 16.

    Two times 16 are two products: each is what it would be alone.

    Args:
        codes, high, packed, scales: planes of the matrix.
        x: fp16 [n, steps, PARTS, 32].
        out: fp32 [splits, n, rows], or where WHOLE, [n, rows] with a stride, times the peaks [n].
        each: steps of a stretch.
    """
    split, tiles = tl.program_id(1), tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = tl.minimum(row, rows - 1)
    n, k = tl.arange(0, 16), tl.arange(0, 32)
    width = steps * PARTS * 32
    first = tiles * 32 if PAIR else tiles * 16
    x += first * width
    sums = tl.full((16, ROWS), 0.0, tl.float32)
    more = tl.full((16, ROWS), 0.0, tl.float32)
    start = split * each
    for step in tl.range(start, tl.minimum(start + each, steps), num_stages=STAGES):
        raw = RAW(codes, high, packed, scales, inside, step, blocks, ROWS, EVEN)
        for part in tl.static_range(PARTS):
            weights = PART(raw, magic, part, ROWS).trans()
            at = x + n[:, None] * width + (step * PARTS + part) * 32 + k[None, :]
            sums = tl.dot(tl.load(at), weights, sums)
            if PAIR:
                more = tl.dot(tl.load(at + 16 * width), weights, more)
    n += first
    mask = (row < rows)[None, :]
    if WHOLE:
        place = out + n[:, None] * out_stride + row[None, :]
        tl.store(place, sums * tl.load(peaks + n)[:, None], mask=mask)
        if PAIR:
            tl.store(place + 16 * out_stride, more * tl.load(peaks + n + 16)[:, None], mask=mask)
    else:
        count = tl.num_programs(2) * (32 if PAIR else 16)
        place = out + (split * count + n)[:, None] * rows + row[None, :]
        tl.store(place, sums, mask=mask)
        if PAIR:
            tl.store(place + 16 * rows, more, mask=mask)


@triton.jit
def _larger(one, other):
    return tl.maximum(one, other)


@triton.jit
def make_ready(
    x,
    order,
    out,
    peaks,
    cols,
    stride,
    width,
    NUMBERS: tl.constexpr,
    LARGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Activations in the order of a format's codes, fp16 [n, width], zeros behind the last.

    Args:
        x: fp32 [n, cols] with a stride.
        order: see `shapes.order`.
        peaks: what the products have to be multiplied with, [n]; 1 but where LARGE.
    """
    row = tl.program_id(0)
    x += row * stride
    out += row * width
    if LARGE:
        most = tl.full((BLOCK,), 0.0, tl.float32)
        for start in range(0, cols, BLOCK):
            place = start + tl.arange(0, BLOCK)
            most = tl.maximum(most, tl.abs(tl.load(x + place, mask=place < cols, other=0.0)))
        peak = tl.maximum(tl.reduce(most, 0, _larger), 1e-30)
        tl.store(peaks + row, peak)
        for start in range(0, width, BLOCK):
            _reorder(x, order, out, start, peak, cols, width, NUMBERS, BLOCK)
    else:
        tl.store(peaks + row, 1.0, mask=tl.program_id(1) == 0)
        _reorder(x, order, out, tl.program_id(1) * BLOCK, 1.0, cols, width, NUMBERS, BLOCK)


@triton.jit
def _reorder(x, order, out, start, peak, cols, width, NUMBERS: tl.constexpr, BLOCK: tl.constexpr):
    place = start + tl.arange(0, BLOCK)
    within = place % NUMBERS
    source = place - within + tl.load(order + within)
    found = tl.load(x + source, mask=source < cols, other=0.0)
    tl.store(out + place, (found / peak).to(tl.float16), mask=place < width)


@triton.jit
def add_stretches(sums, out, peaks, rows, out_stride, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """out fp32 [n, rows] = sums [SPLITS, n, rows], added in ascending order, times the peaks."""
    n = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = row < rows
    at = sums + n * rows + row
    total = tl.load(at, mask=mask)
    for split in tl.static_range(1, SPLITS):
        total += tl.load(at + split * tl.num_programs(1) * rows, mask=mask)
    tl.store(out + n * out_stride + row, total * tl.load(peaks + n), mask=mask)
