"""The kernels of a product: activations made ready, sums of stretches, stretches added up.

Stored codes of 16 words a row become fp16 weights [rows, 32], two at a time: they are put into the
mantissas of two fp16 numbers at 1024 by a mask and an or. The constant of the or comes as an
argument: from a register, both are one instruction.

Of Triton's own library only what is built in is called: the rest is compiled, or interpreted,
according to how Triton was first imported.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Triton reads these annotations; arguments without one are its tensors.


@triton.jit
def words_of(plane, row, first, words, ROWS: tl.constexpr, EVEN: tl.constexpr):
    """16 words of each row from the word `first` on, of `words` in a row: [ROWS, 16].

    The word 4 * quad + 2 * i + j stands at 8 * i + 2 * quad + j, where matrix units want it.
    """
    place = first + tl.arange(0, 16)
    at = plane + row[:, None] * words + place[None, :]
    found = tl.load(at) if EVEN else tl.load(at, mask=(place < words)[None, :], other=0)
    return _quads_apart(found, ROWS)


@triton.jit
def _quads_apart(found, ROWS: tl.constexpr):
    return found.reshape(ROWS, 4, 2, 2).permute(0, 2, 1, 3).reshape(ROWS, 16)


@triton.jit
def _by_quad(scales, ROWS: tl.constexpr):
    """[ROWS, 4], one for each quad -> [ROWS, 16], one for each word."""
    wide = tl.broadcast_to(scales[:, None, :, None], (ROWS, 2, 4, 2))
    return wide.reshape(ROWS, 16)


@triton.jit
def _halves(pairs):
    """Two fp16 numbers that lie in each word."""
    low = (pairs & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True)
    high = (pairs >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return low, high


@triton.jit
def _numbers(pairs, ROWS: tl.constexpr):
    low, high = _halves(pairs)
    return tl.join(low, high).reshape(ROWS, 32)


@triton.jit
def _each(scale, ROWS: tl.constexpr):
    return tl.join(scale, scale).reshape(ROWS, 32)


@triton.jit
def _scaled(pairs, offset: tl.constexpr, scale, ROWS: tl.constexpr):
    """(code - offset) * scale, scales fp16 [ROWS, 16]: rounded once."""
    return (_numbers(pairs, ROWS) - offset) * _each(scale, ROWS)


@triton.jit
def _affine(pairs, scale, less, ROWS: tl.constexpr):
    """code * scale - less, both fp16 [ROWS, 16]: rounded once or twice."""
    return (_numbers(pairs, ROWS) - 1024.0) * _each(scale, ROWS) - _each(less, ROWS)


# -- blocks of 32 -----------------------------------------------------------------------------


@triton.jit
def q4_0_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """128 numbers, four blocks: quad b has block b."""
    words = words_of(codes, row, step * 16, blocks * 4, ROWS, EVEN)
    block = step * 4 + tl.arange(0, 4)
    at = scales + row[:, None] * blocks + block[None, :]
    scale = tl.load(at) if EVEN else tl.load(at, mask=(block < blocks)[None, :], other=0.0)
    return words, _by_quad(scale, ROWS)


@triton.jit
def q4_0_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Byte part // 2 of each half word, lower or upper four bits."""
    pairs = (raw[0] >> (4 * part)) & 0x000F000F | magic
    return _scaled(pairs, 1032.0, raw[1], ROWS)


@triton.jit
def q8_0_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """64 numbers, two blocks: a quad has half of one."""
    words = words_of(codes, row, step * 16, blocks * 8, ROWS, EVEN)
    block = step * 2 + tl.arange(0, 2)
    at = scales + row[:, None] * blocks + block[None, :]
    scale = tl.load(at) if EVEN else tl.load(at, mask=(block < blocks)[None, :], other=0.0)
    wide = tl.broadcast_to(scale[:, :, None], (ROWS, 2, 2)).reshape(ROWS, 4)
    return words, _by_quad(wide, ROWS)


@triton.jit
def q8_0_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Byte `part` of each half word; signed codes become codes from 0 to 255."""
    pairs = ((raw[0] >> (8 * part)) & 0x00FF00FF) ^ (magic | 0x00800080)
    return _scaled(pairs, 1152.0, raw[1], ROWS)


# -- blocks of 256: two steps each --------------------------------------------------------------


@triton.jit
def _k_scales(packed, scales, row, step, blocks, ROWS: tl.constexpr):
    """Scales and minima, fp16 [ROWS, 16], of lower and of upper four bits.

    Quads 0 and 1 have the first two parts of 32 of half a block, quads 2 and 3 the others.
    """
    block = row * blocks + step // 2
    first = tl.load(packed + block * 3)
    second = tl.load(packed + block * 3 + 1)
    third = tl.load(packed + block * 3 + 2)
    both = tl.load(scales + block)
    late = step % 2 == 1
    above = (third & 0x0F0F0F0F) | ((first >> 2) & 0x30303030)
    below = ((third >> 4) & 0x0F0F0F0F) | ((second >> 2) & 0x30303030)
    scale = tl.where(late, above, first & 0x3F3F3F3F)[:, None]
    least = tl.where(late, below, second & 0x3F3F3F3F)[:, None]
    d, m = _halves(both)
    d, m = d.to(tl.float32)[:, None], m.to(tl.float32)[:, None]
    shift = (tl.arange(0, 4) // 2 * 16)[None, :]
    scale, least = scale >> shift, least >> shift
    return (
        _by_quad(((scale & 63).to(tl.float32) * d).to(tl.float16), ROWS),
        _by_quad(((least & 63).to(tl.float32) * m).to(tl.float16), ROWS),
        _by_quad(((scale >> 8 & 63).to(tl.float32) * d).to(tl.float16), ROWS),
        _by_quad(((least >> 8 & 63).to(tl.float32) * m).to(tl.float16), ROWS),
    )


@triton.jit
def _upper_words(plane, row, first, words, ROWS: tl.constexpr):
    """Eight words of each row from the word `first` on, for both halves of the quads."""
    place = first + tl.arange(0, 16) % 8
    return _quads_apart(tl.load(plane + row[:, None] * words + place[None, :]), ROWS)


@triton.jit
def _later_quads():
    """1 for the words of quads 2 and 3, else 0: [1, 16]."""
    return (tl.arange(0, 16) // 4 % 2)[None, :]


@triton.jit
def q4_k_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """128 numbers, half a block: two quads have 64 of them."""
    words = words_of(codes, row, step * 16, blocks * 32, ROWS, True)
    s0, m0, s1, m1 = _k_scales(packed, scales, row, step, blocks, ROWS)
    return words, s0, m0, s1, m1


@triton.jit
def q4_k_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Byte part // 2 of each half word, lower or upper four bits."""
    pairs = (raw[0] >> (4 * part)) & 0x000F000F | magic
    return _affine(pairs, raw[1 + part % 2 * 2], raw[2 + part % 2 * 2], ROWS)


@triton.jit
def q5_k_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """Read codes and scales like `q4_k_raw`, and the fifth bits of this half of the block."""
    words = words_of(codes, row, step * 16, blocks * 32, ROWS, True)
    upper = _upper_words(high, row, step // 2 * 8, blocks * 8, ROWS)
    upper = upper >> (step % 2 * 4) >> (_later_quads() * 2)
    s0, m0, s1, m1 = _k_scales(packed, scales, row, step, blocks, ROWS)
    return words, s0, m0, s1, m1, upper


@triton.jit
def q5_k_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Widen codes like `q4_k_part`, with one more bit for each code."""
    upper = (raw[5] >> (part // 2 * 8 + part % 2)) << 4
    pairs = (raw[0] >> (4 * part)) & 0x000F000F | upper & 0x00100010 | magic
    return _affine(pairs, raw[1 + part % 2 * 2], raw[2 + part % 2 * 2], ROWS)


@triton.jit
def q6_k_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """128 numbers, half a block: a quad has 16 in lower bits and 16 in upper ones."""
    words = words_of(codes, row, step * 16, blocks * 32, ROWS, True)
    upper = _upper_words(high, row, step * 8, blocks * 16, ROWS) >> (_later_quads() * 2)
    block = row * blocks + step // 2
    both = tl.load(scales + block // 2)  # a word has the scales of two blocks
    d = (both >> (block % 2 * 16) & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True)
    d = d.to(tl.float32)[:, None]
    at = packed + block * 4 + step % 2 * 2
    back = (24 - tl.arange(0, 4) * 8)[None, :]
    s0 = (tl.load(at)[:, None] << back >> 24).to(tl.float32) * d
    s1 = (tl.load(at + 1)[:, None] << back >> 24).to(tl.float32) * d
    return words, _by_quad(s0.to(tl.float16), ROWS), _by_quad(s1.to(tl.float16), ROWS), upper


@triton.jit
def q6_k_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Widen codes like `q4_k_part`, with two more bits for each code."""
    upper = (raw[3] >> (part // 2 * 8 + part % 2 * 4)) << 4
    pairs = (raw[0] >> (4 * part)) & 0x000F000F | upper & 0x00300030 | magic
    return _scaled(pairs, 1056.0, raw[1 + part % 2], ROWS)


# -- numbers ----------------------------------------------------------------------------------


@triton.jit
def half_raw(
    codes, high, packed, scales, row, step, blocks, ROWS: tl.constexpr, EVEN: tl.constexpr
):
    """64 numbers of rows with `blocks` of them."""
    return _columns(codes, row, step * 64, blocks, EVEN), _columns(
        codes, row, step * 64 + 32, blocks, EVEN
    )


@triton.jit
def _columns(plane, row, first, cols, EVEN: tl.constexpr):
    col = first + tl.arange(0, 32)
    at = plane + row[:, None] * cols + col[None, :]
    found = tl.load(at) if EVEN else tl.load(at, mask=(col < cols)[None, :], other=0.0)
    return found.to(tl.float16)


@triton.jit
def half_part(raw, magic, part: tl.constexpr, ROWS: tl.constexpr):
    """Numbers 32 * part and on."""
    return raw[part]


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
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # times words: beyond 32 bits
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
def widen(
    codes, high, packed, scales, out, rows, blocks, steps, magic,
    RAW: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """out fp16 [rows, steps, PARTS, 32] = the numbers of ROWS rows in one step, as unpacked."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    step, k = tl.program_id(1), tl.arange(0, 32)
    raw = RAW(codes, high, packed, scales, tl.minimum(row, rows - 1), step, blocks, ROWS, EVEN)
    for part in tl.static_range(PARTS):
        at = out + (row * steps * (PARTS * 32))[:, None] + (step * PARTS + part) * 32 + k[None, :]
        tl.store(at, PART(raw, magic, part, ROWS), mask=(row < rows)[:, None])


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
    row = tl.program_id(0).to(tl.int64)
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
