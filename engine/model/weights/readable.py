"""The protocols through which weights are read, whatever file they lie in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Weights(Protocol):
    """Tensors that a backend reads by their Hugging Face names."""

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array."""
        ...


Stretch = NDArray[Any]
"""Rows of a matrix as they are stored, C-contiguous.

[rows, cols] in float32, float16, or uint16 for the bits of bf16; uint8 [rows, bytes per row] where
they are quantised, in ggml's blocks.
"""


@runtime_checkable
class Readable(Weights, Protocol):
    """Weights that can be read in small pieces and as they are stored, which saves memory."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        ...

    def kind(self, name: str) -> str:
        """The type of a tensor's stretches, in ggml's words: F32, F16, BF16, Q4_0, Q4_K, ..."""
        ...

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix from top to bottom, a multiple of 16 rows at a time but for the last.

        A stretch is valid until the next one is asked for.
        """
        ...


class StoredWeights(Readable, Protocol):
    """Weights in files."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        ...

    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        ...

    def as_floats(self) -> StoredWeights:
        """Return the same tensors, blocks widened as they are read."""
        ...

    def stored_bytes(self, name: str) -> int:
        """Bytes of a tensor in its file."""
        ...
