"""A draft's matrices in fewer bits than its file has: packed for speed, not for fidelity.

Feed-forward and output rows are nearly all that a draft reads for a token, and 4 bits do for them.
Attention and embedding are small, and a draft that has them in 4 bits too is right less often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from engine.backend.native.matrix import NATIVE_KINDS, pack_rows
from engine.backend.native.pool import shared_pool
from engine.backend.native.stretches import BLOCK, ggml_rows
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import HEAD, UNQUANTISED
from engine.model.weights.readable import Floats, StoredWeights, Stretch
from engine.model.weights.reader import FLOATS, widened

FOUR_BITS, EIGHT_BITS = "Q4_0", "Q8_0"


def fewer_bits(weights: StoredWeights) -> dict[str, str]:
    """Return the matrices of a draft that are better packed anew, and the types to pack them in."""
    return {name: kind for name in weights.names() if (kind := _better(weights, name))}


def _better(weights: StoredWeights, name: str) -> str:
    shape, kind = weights.shape(name), weights.kind(name)
    if len(shape) != 2 or shape[1] % BLOCK or name.endswith(UNQUANTISED):
        return ""
    if name == HEAD or ".mlp." in name:
        return FOUR_BITS if _bytes_each(kind) > _bytes_each(FOUR_BITS) else ""
    return EIGHT_BITS if kind in FLOATS else ""


def _bytes_each(kind: str) -> float:
    return KIND_OF_NAME[kind].nbytes / KIND_OF_NAME[kind].numbers


class Repacked:
    """Weights some of whose matrices are read in other types than they are stored in.

    Args:
        weights: all of them, as they are stored.
        kinds: by name the other types, `FOUR_BITS` or `EIGHT_BITS`.
    """

    def __init__(self, weights: StoredWeights, kinds: Mapping[str, str]) -> None:
        self._weights, self._floats = weights, weights.as_floats()
        self.kinds = kinds

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored."""
        return self._weights.nbytes

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return self._weights.files

    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        return self._weights.names()

    def stored_bytes(self, name: str) -> int:
        """Bytes of a tensor in its file."""
        return self._weights.stored_bytes(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._weights.shape(name)

    def kind(self, name: str) -> str:
        """Type of a tensor's stretches, in ggml's words."""
        return self.kinds.get(name) or self._weights.kind(name)

    def as_floats(self) -> StoredWeights:
        """Return the same tensors, blocks widened as they are read."""
        return self._floats

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array, as it is stored."""
        return self._weights.float32(name)

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in stretches, packed anew where it is to be of another type."""
        kind = self.kinds.get(name)
        if kind is None:
            yield from self._weights.stretches(name)
            return
        pool, fmt = shared_pool(), NATIVE_KINDS[kind]
        of = self._floats.kind(name)
        for part in self._floats.stretches(name):
            packed = pack_rows(pool, np.ascontiguousarray(widened(part, of)), fmt)
            yield ggml_rows(packed.struct, 0, len(part)).copy()
