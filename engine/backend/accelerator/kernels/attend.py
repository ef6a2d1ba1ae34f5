"""The kernels of attention: stretches of keys, tails of a tree's rows, and their combination.

A stretch is a fixed number of chunks from position 0 on. Each is summed up by itself, with its own
largest score, and stretches are combined in ascending order: so a row's numbers depend on its own
path alone. A chunk that none of a tile's rows may look at is not read.

See `multiply` for what of Triton's library is called.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _larger(one, other):
    return tl.maximum(one, other)


@triton.jit
def _sum(one, other):
    return one + other


@triton.jit
def _queries(q, row, head, stride, scale, inside, DIM: tl.constexpr, DIMS: tl.constexpr):
    """Scaled queries, fp16 [rows, DIMS]."""
    dim = tl.arange(0, DIMS)
    at = q + (row * stride + head * DIM)[:, None] + dim[None, :]
    found = tl.load(at, mask=inside[:, None] & (dim < DIM)[None, :], other=0.0)
    return (found * scale).to(tl.float16)


@triton.jit
def _looked(
    query, hidden, keys, values, at, peak, total, mixed, cap,
    DIM: tl.constexpr, DIMS: tl.constexpr, CAPPED: tl.constexpr,
):  # fmt: skip
    """Let queries look at 64 keys, whose numbers begin at `at`: new peaks, totals, sums."""
    dim = tl.arange(0, DIMS)
    within = (dim < DIM)[None, :]
    place = at[:, None] + dim[None, :]
    key = tl.load(keys + place, mask=within, other=0.0)
    scores = tl.dot(query, key.trans(), tl.full((query.shape[0], 64), 0.0, tl.float32))
    if CAPPED:
        scores = cap - 2.0 * cap / (tl.exp(2.0 / cap * scores) + 1.0)
    scores = tl.where(hidden < 0.0, float("-inf"), scores)
    higher = tl.maximum(peak, tl.reduce(scores, 1, _larger))
    base = tl.where(higher == float("-inf"), 0.0, higher)
    shares = tl.exp(scores - base[:, None])
    kept = tl.exp(peak - base)
    value = tl.load(values + place, mask=within, other=0.0)
    mixed = tl.dot(shares.to(tl.float16), value, mixed * kept[:, None])
    return higher, total * kept + tl.reduce(shares, 1, _sum), mixed


@triton.jit
def attend_stretches(
    q, keys, values, mask, sums, peaks, totals,
    stride, rows, mask_stride, chunks, scale, cap,
    TILE: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr,
    DIMS: tl.constexpr, EACH: tl.constexpr, CAPPED: tl.constexpr,
):  # fmt: skip
    """A stretch of EACH chunks of one key-value head, for TILE rows: grid (tiles, kv, stretches).

    Args:
        q: fp32 [rows, heads, DIM] with a stride between rows.
        keys, values: fp16 [chunks, kv, 64, DIM].
        mask: fp32 [chunks, rows, 64] with a stride between chunks.
        sums, peaks, totals: fp32 [stretches, rows, heads, DIM] and without the last axis.
    """
    head, part = tl.program_id(1), tl.program_id(2)
    kv = tl.num_programs(1)
    place, slot = tl.arange(0, ROWS), tl.arange(0, 64)
    inside = place < TILE * GROUP
    row = tl.program_id(0) * TILE + tl.minimum(place // GROUP, TILE - 1)
    own = head * GROUP + place % GROUP
    query = _queries(q, row, own, stride, scale, inside, DIM, DIMS)
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0.0, tl.float32)
    mixed = tl.full((ROWS, DIMS), 0.0, tl.float32)
    for chunk in range(part * EACH, tl.minimum(part * EACH + EACH, chunks)):
        seen = mask + chunk * mask_stride + row[:, None] * 64 + slot[None, :]
        hidden = tl.load(seen)
        if tl.reduce(tl.reduce(hidden, 1, _larger), 0, _larger) == 0.0:
            at = (chunk * kv + head) * (64 * DIM) + slot * DIM
            peak, total, mixed = _looked(
                query, hidden, keys, values, at, peak, total, mixed, cap, DIM, DIMS, CAPPED
            )
    found = (part * rows + row).to(tl.int64) * (kv * GROUP) + own
    dim = tl.arange(0, DIMS)
    tl.store(peaks + found, peak, mask=inside)
    tl.store(totals + found, total, mask=inside)
    whole = sums + found[:, None] * DIM + dim[None, :]
    tl.store(whole, mixed, mask=inside[:, None] & (dim < DIM)[None, :])


@triton.jit
def attend_tails(
    q, keys, values, tails, mask, sums, peaks, totals,
    stride, rows, mask_stride, chunks, stretches, scale, cap,
    GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr,
    CAPPED: tl.constexpr,
):  # fmt: skip
    """One row's own chunk behind those: grid (rows, kv, tail chunks).

    Args:
        tails: int64 [rows, tail chunks, kv, 64], rows of keys and values.
    """
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv = tl.num_programs(1)
    place, slot = tl.arange(0, ROWS), tl.arange(0, 64)
    inside = place < GROUP
    own = head * GROUP + tl.minimum(place, GROUP - 1)
    query = _queries(q, row + place * 0, own, stride, scale, inside, DIM, DIMS)
    seen = mask + (chunks + part) * mask_stride + row * 64 + slot
    hidden = tl.load(seen)[None, :]
    at = tl.load(tails + ((row * tl.num_programs(2) + part) * kv + head) * 64 + slot) * DIM
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0.0, tl.float32)
    mixed = tl.full((ROWS, DIMS), 0.0, tl.float32)
    peak, total, mixed = _looked(
        query, hidden, keys, values, at, peak, total, mixed, cap, DIM, DIMS, CAPPED
    )
    found = ((stretches + part) * rows + row).to(tl.int64) * (kv * GROUP) + own
    dim = tl.arange(0, DIMS)
    tl.store(peaks + found, peak, mask=inside)
    tl.store(totals + found, total, mask=inside)
    whole = sums + found[:, None] * DIM + dim[None, :]
    tl.store(whole, mixed, mask=inside[:, None] & (dim < DIM)[None, :])


@triton.jit
def combine(
    sums, peaks, totals, sinks, out, parts,
    SINKS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    """out fp32 [rows, heads, DIM] = sums over totals, parts in ascending order: grid (rows, heads).

    Args:
        sinks: fp32 [heads], logits that take part and add nothing, where SINKS.
    """
    head = tl.program_id(1)
    own = tl.program_id(0) * tl.num_programs(1) + head
    step = tl.num_programs(0).to(tl.int64) * tl.num_programs(1)
    dim = tl.arange(0, DIMS)
    within = dim < DIM
    peak = tl.load(peaks + own)
    total = tl.load(totals + own)
    mixed = tl.load(sums + own * DIM + dim, mask=within, other=0.0)
    for part in range(1, parts):
        place = part * step + own
        higher = tl.load(peaks + place)
        both = tl.maximum(peak, higher)
        base = tl.where(both == float("-inf"), 0.0, both)
        kept, added = tl.exp(peak - base), tl.exp(higher - base)
        total = total * kept + tl.load(totals + place) * added
        more = tl.load(sums + place * DIM + dim, mask=within, other=0.0)
        mixed = mixed * kept + more * added
        peak = both
    if SINKS:
        sink = tl.load(sinks + head)
        both = tl.maximum(peak, sink)
        total = total * tl.exp(peak - both) + tl.exp(sink - both)
        mixed = mixed * tl.exp(peak - both)
    tl.store(out + own * DIM + dim, mixed / total, mask=within)
