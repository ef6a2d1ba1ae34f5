"""Stored codes of 16 words a row -> fp16 weights [rows, 32], for each format.

Two codes at a time are put into the mantissas of two fp16 numbers at 1024: a mask and an or. The
constant of the or comes as an argument: from a register, both are one instruction.
"""
# Triton reads these annotations; arguments without one are its tensors.

from __future__ import annotations

import triton
import triton.language as tl


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
