"""Ggml's tensor types, and the size of a block of each (see NOTICE).

The gguf package has most of this table, but gives Q8_1 a wrong size and lacks the newest types.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorKind:
    """A tensor type: rows are blocks of `numbers` numbers, `nbytes` bytes each."""

    name: str
    numbers: int
    nbytes: int


KINDS: dict[int, TensorKind] = {
    0: TensorKind("F32", 1, 4),
    1: TensorKind("F16", 1, 2),
    2: TensorKind("Q4_0", 32, 18),
    3: TensorKind("Q4_1", 32, 20),
    6: TensorKind("Q5_0", 32, 22),
    7: TensorKind("Q5_1", 32, 24),
    8: TensorKind("Q8_0", 32, 34),
    9: TensorKind("Q8_1", 32, 36),
    10: TensorKind("Q2_K", 256, 84),
    11: TensorKind("Q3_K", 256, 110),
    12: TensorKind("Q4_K", 256, 144),
    13: TensorKind("Q5_K", 256, 176),
    14: TensorKind("Q6_K", 256, 210),
    15: TensorKind("Q8_K", 256, 292),
    16: TensorKind("IQ2_XXS", 256, 66),
    17: TensorKind("IQ2_XS", 256, 74),
    18: TensorKind("IQ3_XXS", 256, 98),
    19: TensorKind("IQ1_S", 256, 50),
    20: TensorKind("IQ4_NL", 32, 18),
    21: TensorKind("IQ3_S", 256, 110),
    22: TensorKind("IQ2_S", 256, 82),
    23: TensorKind("IQ4_XS", 256, 136),
    24: TensorKind("I8", 1, 1),
    25: TensorKind("I16", 1, 2),
    26: TensorKind("I32", 1, 4),
    27: TensorKind("I64", 1, 8),
    28: TensorKind("F64", 1, 8),
    29: TensorKind("IQ1_M", 256, 56),
    30: TensorKind("BF16", 1, 2),
    34: TensorKind("TQ1_0", 256, 54),
    35: TensorKind("TQ2_0", 256, 66),
    39: TensorKind("MXFP4", 32, 17),
    40: TensorKind("NVFP4", 64, 36),
    41: TensorKind("Q1_0", 128, 18),
    42: TensorKind("Q2_0", 64, 18),
}
"""Types by ggml's number. The gaps are types that ggml has given up."""

KIND_OF_NAME = {kind.name: kind for kind in KINDS.values()}
