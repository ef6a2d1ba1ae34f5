"""The rearranged weights have the values of the packed ones, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backend.native.library import Format
from engine.backend.native.matrix import Packed, pack, unpack
from engine.backend.native.pool import ThreadPool
from engine.backend.native.stretches import TYPES, ggml_rows
from engine.bench.peer.export import BlockWeights
from engine.model.families import parse_config
from engine.model.tensors import EMBEDDING
from engine.model.weights.readable import Floats

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
    if fmt is Format.F32:
        return rows.view("<f4")
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
    blocks = COLS // 32
    wanted = [blocks * 18, blocks * 34, COLS * 2, COLS * 2, COLS * 4]
    assert sizes == [(2, nbytes) for nbytes in wanted]


@pytest.mark.parametrize("fmt", list(TYPES))
def test_the_last_block_of_a_row_is_filled_with_zeros(fmt: Format) -> None:
    odd, whole = packed(fmt, cols=90), packed(fmt, cols=96)
    rows = ggml_rows(odd.struct, 0, ROWS)
    assert rows.shape == ggml_rows(whole.struct, 0, ROWS).shape
    if fmt is Format.Q8:
        assert not rows.reshape(ROWS, 3, 34)[:, 2, 2 + 26 :].any()


def test_rows_that_ggml_cannot_hold() -> None:
    shape = {
        "model_type": "llama", "hidden_size": 90, "intermediate_size": 96, "vocab_size": ROWS,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "head_dim": 32,
    }  # fmt: skip
    tensor = np.ones((ROWS, 90), dtype=np.float32)
    weights = BlockWeights(parse_config(shape), One(tensor), Format.Q4)
    with pytest.raises(ValueError, match="blocks of 32"):
        next(weights.stretches(EMBEDDING))
