"""Weights whose output matrix has the rows of a shortlist only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.model.tensors import HEAD, HEAD_IDS
from engine.model.weights.readable import Floats, StoredWeights, Stretch
from engine.model.weights.reader import widened

_GROUP = 16
"""Stretches are multiples of so many rows."""


class Shortlisted:
    """A draft's weights, their output matrix cut to the rows of some tokens.

    Everything else is as it is stored. A draft with these weights has a `ModelConfig` with `rows`.

    Args:
        weights: the whole model's.
        matrix: the name of its output matrix: HEAD, or EMBEDDING where that is tied.
        ids: the tokens that have a row, int64, ascending.
    """

    def __init__(self, weights: StoredWeights, matrix: str, ids: NDArray[np.int64]) -> None:
        self._weights, self._matrix, self._ids = weights, matrix, ids

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored, the whole output matrix among them."""
        tied = self._matrix != HEAD
        return self._weights.nbytes + (self.stored_bytes(HEAD) if tied else 0)

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return self._weights.files

    def as_floats(self) -> Shortlisted:
        """Return the same tensors, blocks widened as they are read."""
        return Shortlisted(self._weights.as_floats(), self._matrix, self._ids)

    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        return tuple(dict.fromkeys((*self._weights.names(), HEAD, HEAD_IDS)))

    def stored_bytes(self, name: str) -> int:
        """Bytes that reading a tensor takes from its file."""
        if name == HEAD_IDS:
            return 0
        return self._weights.stored_bytes(self._matrix if name == HEAD else name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        if name == HEAD_IDS:
            return (len(self._ids),)
        if name == HEAD:
            return (len(self._ids), self._weights.shape(self._matrix)[1])
        return self._weights.shape(name)

    def kind(self, name: str) -> str:
        """Type of a tensor's stretches, in ggml's words."""
        if name == HEAD_IDS:
            return "F32"
        return self._weights.kind(self._matrix if name == HEAD else name)

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array."""
        if name == HEAD_IDS:
            return self._ids.astype(np.float32)
        if name != HEAD:
            return self._weights.float32(name)
        kind = self.kind(HEAD)
        return np.concatenate([widened(part, kind) for part in self.stretches(HEAD)])

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in stretches; of the output matrix, those rows that are wanted."""
        if name != HEAD:
            yield from self._weights.stretches(name)
            return
        waiting: list[Stretch] = []
        first = held = 0
        for part in self._weights.stretches(self._matrix):
            begin, end = np.searchsorted(self._ids, (first, first + len(part)))
            waiting.append(part[self._ids[begin:end] - first])
            first, held = first + len(part), held + int(end - begin)
            if ready := held - held % _GROUP:
                rows = np.concatenate(waiting)
                yield rows[:ready]
                waiting, held = [rows[ready:]], held - ready
        if held:
            yield np.concatenate(waiting)
