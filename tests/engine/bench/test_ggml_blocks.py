"""The rearranged weights have the values of the packed ones, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backend.native.library import Format
from engine.backend.native.matrix import Packed, pack, unpack
from engine.backend.native.pool import ThreadPool
from engine.backend.segment import Floats
from engine.bench.peer.blocks import TYPES, ggml_rows

ROWS, COLS = 70, 160


class One:
    def __init__(self, tensor: Floats) -> None:
        self.tensor = tensor

    def float32(self, name: str) -> Floats:
        del name
        return self.tensor


def packed(fmt: Format, cols: int = COLS) -> Packed:
    tensor = np.random.default_rng(3).standard_normal((ROWS, cols), dtype=np.float32)
    tensor[5, :32] = 0
    return pack(ThreadPool(1), One(tensor), ["one"], fmt)


def values(rows: NDArray[np.uint8], fmt: Format) -> Floats:
    """ggml's definition of its types."""
    if fmt is Format.BF16:
        return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if fmt is Format.F16:
        return rows.view("<f2").astype(np.float32)
    blocks = rows.reshape(len(rows), COLS // 32, -1)
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    if fmt is Format.Q8:
        whole = blocks[..., 2:].view(np.int8).astype(np.float32)
    else:
        nibbles = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1)
        whole = nibbles.astype(np.float32) - 8
    return (whole * scales).reshape(len(rows), -1)


@pytest.mark.parametrize("fmt", list(TYPES))
@pytest.mark.parametrize(("first", "count"), [(0, ROWS), (16, 32), (37, 20), (69, 1)])
def test_values_stay(fmt: Format, first: int, count: int) -> None:
    matrix = packed(fmt)
    rows = ggml_rows(matrix.struct, first, count)
    wanted = unpack(matrix)[first : first + count]
    assert values(rows, fmt).tobytes() == wanted.tobytes()


def test_rows_are_as_long_as_ggml_wants_them() -> None:
    matrices = [packed(fmt) for fmt in TYPES]  # a struct alone does not keep its memory
    sizes = [ggml_rows(matrix.struct, 0, 2).shape for matrix in matrices]
    assert sizes == [(2, COLS // 32 * 18), (2, COLS // 32 * 34), (2, COLS * 2), (2, COLS * 2)]


def test_rows_that_ggml_cannot_hold() -> None:
    matrix = packed(Format.Q4, cols=90)
    with pytest.raises(ValueError, match="blocks of 32"):
        ggml_rows(matrix.struct, 0, 2)
