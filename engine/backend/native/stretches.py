"""Rows of matrices on their way to a device: as files have them, or as the CPU packs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine.backend.native.library import Format
from engine.backend.native.matrix import LANES, TYPES, ggml_rows, pack
from engine.backend.native.memory import Arena
from engine.backend.native.pool import shared_pool
from engine.model.weights.readable import Readable, Stretch, Weights

PACKED = {kind: fmt for fmt, kind in TYPES.items()}
"""Formats that the native backend packs, by what files call them."""

_STRETCH_BYTES = 16 << 20
_NUMBERS = {Format.F32: np.float32, Format.F16: np.float16, Format.BF16: np.uint16}


def kind_of(weights: Weights, name: str) -> str:
    """Return how the model's files store a tensor; "F32" where they do not say."""
    return weights.kind(name) if isinstance(weights, Readable) else "F32"


def stored_rows(weights: Weights, names: Sequence[str], kind: str) -> Iterator[Stretch]:
    """Yield the rows of matrices one below the other: as stored where that is `kind`, or fp32."""
    for name in names:
        if isinstance(weights, Readable) and weights.kind(name) == kind:
            yield from weights.stretches(name)
        else:
            yield weights.float32(name)


def packed_rows(weights: Weights, names: Sequence[str], fmt: Format) -> Iterator[Stretch]:
    """Yield what the native backend packs of matrices, some megabytes at a time.

    So the weights are the CPU's, bit for bit; what is packed is freed when all of it is read.
    """
    packed = pack(shared_pool(), weights, names, fmt, Arena())
    struct = packed.struct
    step = max(_STRETCH_BYTES * struct.rows // packed.nbytes // LANES, 1) * LANES
    number = _NUMBERS.get(fmt)
    for first in range(0, struct.rows, step):
        rows = ggml_rows(struct, first, min(step, struct.rows - first))
        yield rows if number is None else rows.view(number)[:, : struct.cols]
