"""Blocks taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from engine.model.weights.block_parts import split_blocks


@pytest.mark.parametrize("parts", [(2, 16), (2, 2, 4, 16), (4, 12, 128), (8,), (1, 16)])
def test_every_byte_has_its_part(parts: tuple[int, ...]) -> None:
    size = sum(parts)
    rows = np.random.default_rng(3).integers(0, 256, (6, 5 * size), dtype=np.uint8)
    begin = 0
    for part, found in zip(parts, split_blocks(rows[1:], parts), strict=True):
        assert found.shape == (5, 5, part)
        assert found.flags.c_contiguous
        for row in range(5):
            for block in range(5):
                first = block * size + begin
                assert np.array_equal(found[row, block], rows[row + 1, first : first + part])
        begin += part
