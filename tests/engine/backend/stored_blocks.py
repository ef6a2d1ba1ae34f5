"""Matrices in ggml's blocks with random bits and reasonable scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}
"""Quantised kinds, and where the fp16 scales of a block begin."""


def block_of(kind: str) -> tuple[int, int]:
    """Weights and bytes of a block."""
    weights, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return weights, nbytes


def random_rows(kind: str, rows: int, cols: int, seed: int = 0) -> Bytes:
    """[rows, bytes per row]."""
    rng = np.random.default_rng(seed)
    weights, nbytes = block_of(kind)
    blocks = rng.integers(0, 256, (rows, cols // weights, nbytes), dtype=np.uint8)
    for at in HALVES[kind]:
        scales = rng.normal(0, 0.01, (*blocks.shape[:2], 1)).astype(np.float16)
        blocks[..., at : at + 2] = scales.view(np.uint8)
    if kind == "MXFP4":
        blocks[..., 0] = rng.integers(110, 130, blocks.shape[:2])
    return blocks.reshape(rows, -1)


def widened(rows: Bytes, kind: str) -> Floats:
    """What ggml's definition makes of them."""
    return np.asarray(dequantize(rows, GGMLQuantizationType[kind]), dtype=np.float32)


class StoredRows:
    """Weights with one matrix, read 16 rows at a time."""

    def __init__(self, rows: Bytes, kind: str) -> None:
        self.rows, self._kind = rows, kind

    def shape(self, name: str) -> tuple[int, int]:
        del name
        weights, nbytes = block_of(self._kind)
        return len(self.rows), self.rows.shape[1] // nbytes * weights

    def kind(self, name: str) -> str:
        del name
        return self._kind

    def float32(self, name: str) -> Floats:
        del name
        return widened(self.rows, self._kind)

    def stretches(self, name: str) -> Iterator[Bytes]:
        del name
        for first in range(0, len(self.rows), 16):
            yield self.rows[first : first + 16]
