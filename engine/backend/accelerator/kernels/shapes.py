"""The division of a product into programs: by the matrix alone, whatever rows multiply it.

So a row's sums are formed in one order whatever is beside it: a program adds up a fixed stretch of
columns step by step, and the stretches' sums are added in ascending order. Plain arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backend.accelerator.sizes import FEW_ROWS, PIECE

WORDS = 16
"""32-bit words of codes of a row that a step reads: 64 bytes, whole sectors of any memory."""
LANE = 32
"""Numbers of a row that are multiplied together."""
PROGRAMS = PIECE // FEW_ROWS // 128
"""About as many are wanted: some for every multiprocessor of a large card, sums in a piece."""
_FEWEST_STEPS = 4
_MOST_SPLITS = 16


@dataclass(frozen=True, slots=True)
class Cut:
    """Division of one kind of matrix into steps and programs.

    Attributes:
        numbers: numbers of a row that a step takes.
        rows: rows of the matrix that a program takes.
        warps, stages: those of a program; loads run ahead of the arithmetic by the stages.
    """

    numbers: int
    rows: int = 128
    warps: int = 4
    stages: int = 4

    @property
    def parts(self) -> int:
        """Products of LANE numbers in a step."""
        return self.numbers // LANE

    def steps(self, width: int) -> int:
        """Steps along rows of so many numbers."""
        return -(-width // self.numbers)

    def split(self, rows: int, width: int) -> tuple[int, int]:
        """Steps of a stretch, and how many stretches a row falls into."""
        steps = self.steps(width)
        wanted = PROGRAMS // -(-rows // self.rows)
        splits = max(min(wanted, steps // _FEWEST_STEPS, _MOST_SPLITS), 1)
        each = -(-steps // splits)
        return each, -(-steps // each)


CUTS = {
    "Q4_0": Cut(128),
    "Q8_0": Cut(64),
    "Q4_K": Cut(128),
    "Q5_K": Cut(128, stages=3),  # so that two programs share a multiprocessor of any card
    "Q6_K": Cut(128, stages=3),
    "F16": Cut(64, rows=64),
    "BF16": Cut(64, rows=64),
}
"""By ggml's names: the formats that have kernels."""


def order(kind: str) -> NDArray[np.int32]:
    """Order of a step's numbers as a kernel unpacks them: [parts, LANE].

    A thread holds four neighbouring words, of which part s takes two codes each: so activations
    are brought into the order of the codes, and codes need not change places.
    """
    cut = CUTS[kind]
    if kind in ("F16", "BF16"):
        return np.arange(cut.numbers, dtype=np.int32).reshape(cut.parts, LANE)
    part, place, half = np.meshgrid(
        np.arange(cut.parts), np.arange(WORDS), np.arange(2), indexing="ij"
    )
    quad, inner = place // 2 % 4, place // 8 * 2 + place % 2  # a thread's, and its word
    if kind == "Q8_0":
        found = 16 * quad + 4 * inner + part + 2 * half
    else:
        upper, byte = part % 2, part // 2 + 2 * half + 4 * inner
        found = {
            "Q4_0": 32 * quad + 16 * upper + byte,
            "Q4_K": 64 * (quad // 2) + 32 * upper + 16 * (quad % 2) + byte,
            "Q6_K": 64 * upper + 16 * quad + byte,
        }["Q4_K" if kind == "Q5_K" else kind]
    return found.astype(np.int32).reshape(cut.parts, LANE)
