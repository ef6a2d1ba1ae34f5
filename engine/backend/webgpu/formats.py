"""Kinds of stored matrices: the parts of their blocks, each of which lies in a plane of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.model.weights.block_parts import split_blocks

EIGHT = 8
"""Numbers of a row of floats that kernels read at once."""
BLOCK = 32
"""Numbers of a row of codes that kernels read at once."""


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A kind of matrices.

    Attributes:
        numbers: of a block.
        parts: bytes of the block's parts in their order.
        codes: which part is the codes, which kernels read 16 bytes at a time.
        halves: the parts that are 16-bit floats.
        files: shader sources that `load_block` or `load_eight` is made of.
    """

    numbers: int
    parts: tuple[int, ...]
    codes: int
    halves: tuple[int, ...]
    files: tuple[str, ...]

    @property
    def floats(self) -> bool:
        """Tell whether it is plain numbers."""
        return self.numbers == EIGHT

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return sum(self.parts)

    @property
    def width(self) -> int:
        """Numbers that kernels read at once."""
        return EIGHT if self.floats else BLOCK

    @property
    def planes(self) -> tuple[int, ...]:
        """Bytes of the parts beside the codes."""
        return tuple(part for place, part in enumerate(self.parts) if place != self.codes)

    def blocks(self, cols: int) -> int:
        """Return the stored blocks of a row."""
        return -(-cols // self.numbers)

    def split(self, rows: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """Return rows as they are stored, [rows, bytes of a row], by part, the codes first."""
        pieces = split_blocks(rows, self.parts)
        return [pieces.pop(self.codes), *pieces]

    def finite(self, pieces: Sequence[NDArray[np.uint8]]) -> bool:
        """Tell whether the 16-bit scales among the parts, as `split` returns them, are numbers."""
        order = [self.codes, *(place for place in range(len(self.parts)) if place != self.codes)]
        halves = (
            piece.view(np.float16)
            for piece, place in zip(pieces, order, strict=True)
            if place in self.halves
        )
        return all(bool(np.isfinite(half).all()) for half in halves)


def _codes(
    name: str, numbers: int, parts: tuple[int, ...], codes: int, halves: tuple[int, ...], *more: str
) -> BlockFormat:
    files = "numbers", "blocks", *(f"formats/{part}" for part in (*more, name))
    return BlockFormat(numbers, parts, codes, halves, files)


def _floats(name: str, nbytes: int) -> BlockFormat:
    return BlockFormat(EIGHT, (EIGHT * nbytes,), 0, (), ("numbers", f"formats/{name}"))


FORMATS = {
    "Q4_0": _codes("q4_0", 32, (2, 16), 1, (0,)),
    "Q4_1": _codes("q4_1", 32, (2, 2, 16), 2, (0, 1)),
    "Q5_0": _codes("q5_0", 32, (2, 4, 16), 2, (0,)),
    "Q5_1": _codes("q5_1", 32, (2, 2, 4, 16), 3, (0, 1)),
    "Q8_0": _codes("q8_0", 32, (2, 32), 1, (0,)),
    "Q2_K": _codes("q2_k", 256, (16, 64, 2, 2), 1, (2, 3)),
    "Q3_K": _codes("q3_k", 256, (32, 64, 12, 2), 1, (3,)),
    "Q4_K": _codes("q4_k", 256, (4, 12, 128), 2, (0,), "six_bits"),
    "Q5_K": _codes("q5_k", 256, (4, 12, 32, 128), 3, (0,), "six_bits"),
    "Q6_K": _codes("q6_k", 256, (128, 64, 16, 2), 0, (3,)),
    "IQ4_NL": _codes("iq4_nl", 32, (2, 16), 1, (0,), "iq4_table", "table"),
    "IQ4_XS": _codes("iq4_xs", 256, (2, 2, 4, 128), 3, (0,), "iq4_table", "table"),
    "MXFP4": _codes("mxfp4", 32, (1, 16), 1, (), "table"),
    "F32": _floats("f32", 4),
    "F16": _floats("f16", 2),
    "BF16": _floats("bf16", 2),
}
"""By ggml's names."""
