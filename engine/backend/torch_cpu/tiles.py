"""Batch-invariant products: every matrix product has the same shape, whatever is computed.

BLAS libraries pick a kernel, and with it an order of summation, by the shape of the operands. One
row alone and the same row among eight therefore differ in the last bits. Here rows always travel
in tiles of `rows` (padded with zeros), on one thread, so that a row's result depends on the row
alone: rule 3.2 of the design, "one arithmetic". Whether the installed BLAS treats all rows of a
tile alike is checked, never assumed; where it does not, a tile is one row.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from engine.backend.step import CHUNK

TILE_ROWS = 8


def pin_to_one_thread() -> None:
    """Keep torch's own threads at one: its products split their sums by the number of threads."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@lru_cache(maxsize=256)
def _product_is_row_invariant(inner: int, outer: int) -> bool:
    generator = torch.Generator().manual_seed(inner * 65537 + outer)
    weight = torch.randn(inner, outer, generator=generator)
    x = torch.randn(TILE_ROWS, inner, generator=generator)
    y = x @ weight
    for shift in range(1, TILE_ROWS):
        if not torch.equal(torch.roll(x, shift, 0) @ weight, torch.roll(y, shift, 0)):
            return False
    alone = torch.zeros_like(x)
    alone[3] = x[3]
    return torch.equal((alone @ weight)[3], y[3])


@lru_cache(maxsize=64)
def _attention_is_row_invariant(group: int, head_dim: int) -> bool:
    generator = torch.Generator().manual_seed(group * 4099 + head_dim)
    rows = TILE_ROWS * group
    query = torch.randn(rows, head_dim, generator=generator)
    keys = torch.randn(5, CHUNK, head_dim, generator=generator)
    weights = torch.rand(5, rows, CHUNK, generator=generator)
    scores = torch.bmm(query.expand(5, -1, -1), keys.transpose(1, 2))
    mixed = torch.bmm(weights, keys)
    for count in (1, 2, 3):
        fewer = torch.bmm(query.expand(count, -1, -1), keys[:count].transpose(1, 2))
        if not torch.equal(fewer, scores[:count]):
            return False
        if not torch.equal(torch.bmm(weights[:count], keys[:count]), mixed[:count]):
            return False
    rolled = torch.roll(query, group, 0).expand(5, -1, -1)
    if not torch.equal(torch.bmm(rolled, keys.transpose(1, 2)), torch.roll(scores, group, 1)):
        return False
    rolled_weights = torch.roll(weights, group, 1)
    return torch.equal(torch.bmm(rolled_weights, keys), torch.roll(mixed, group, 1))


def tile_rows(products: set[tuple[int, int]], group: int, head_dim: int) -> int:
    """Rows per tile for these (inner, outer) products and this attention shape: 8, else 1."""
    pin_to_one_thread()
    with torch.inference_mode():
        alike = all(_product_is_row_invariant(*shape) for shape in sorted(products))
        return TILE_ROWS if alike and _attention_is_row_invariant(group, head_dim) else 1
