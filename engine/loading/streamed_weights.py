"""Weights as a load reads them: with progress, stoppable, with the target's rows for tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from engine.errors import Cancelled
from engine.model.weights.readable import Floats, StoredWeights, Stretch
from engine.model.weights.reader import widened
from engine.model.weights.stored import not_finite

_GROUP = 16
"""Stretches are multiples of so many rows."""
_PADDING_ROWS = 4096
"""Most rows of zeros at a time."""


class StreamedWeights:
    """Weights that report how many stored bytes were read, and obey a cancellation in between.

    They have as many rows for tokens as the target has. Models of one family share a tokenizer and
    round its size up in different ways (Qwen2.5: 151936 rows up to 3B, 152064 from 7B on). The rows
    in question belong to no token: they are left out, or are zeros, which zero bytes mean in every
    type of ggml as well.

    Args:
        weights: where they are read from.
        report: told the bytes so far.
        cancelled: asked at every stretch, so also within a large tensor.
        rows: that the target has for tokens.
        tables: matrices with a row for every token.
    """

    def __init__(
        self,
        weights: StoredWeights,
        report: Callable[[int], None],
        cancelled: Callable[[], bool],
        rows: int = 0,
        tables: Collection[str] = (),
    ) -> None:
        self._weights, self._report, self._cancelled = weights, report, cancelled
        self._rows, self._tables = rows, tables
        self._done = 0.0

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array; `UserFixable` where it is not finite."""
        shape, kind = self._weights.shape(name), self.kind(name)
        if len(shape) != 2:
            self._advance(self._weights.stored_bytes(name))
            return _finite(self._weights.float32(name), name)
        values, first = np.empty(shape, dtype=np.float32), 0
        for part in self._stored(name):
            values[first : first + len(part)] = _finite(widened(part, kind), name)
            first += len(part)
        if not self._differs(name):
            return values
        missing = max(self._rows - len(values), 0)
        return np.pad(values[: self._rows], ((0, missing), (0, 0)))

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        shape = self._weights.shape(name)
        return (self._rows, *shape[1:]) if self._differs(name) else shape

    def kind(self, name: str) -> str:
        """Return the type that a tensor is stored in."""
        return self._weights.kind(name)

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix, some rows at a time."""
        if not self._differs(name):
            yield from self._stored(name)
            return
        left = self._rows
        for part in self._stored(name):
            odd = min(-len(part) % _GROUP, max(left - len(part), 0))
            piece = np.pad(part[:left], ((0, odd), (0, 0))) if odd else part[:left]
            left -= len(piece)
            if len(piece):
                yield piece
        while left:
            rows = min(left, _PADDING_ROWS)
            left -= rows
            yield np.zeros((rows, part.shape[1]), dtype=part.dtype)

    def skip(self, names: Sequence[str]) -> None:
        """Count tensors as read that are there already."""
        self._advance(sum(self._weights.stored_bytes(name) for name in names))

    def _stored(self, name: str) -> Iterator[Stretch]:
        """A matrix with the rows that its file has."""
        per_row = self._weights.stored_bytes(name) / self._weights.shape(name)[0]
        for part in self._weights.stretches(name):
            yield part
            self._advance(len(part) * per_row)

    def _advance(self, nbytes: float) -> None:
        if self._cancelled():
            raise Cancelled
        self._done += nbytes
        self._report(round(self._done))

    def _differs(self, name: str) -> bool:
        return name in self._tables and self._weights.shape(name)[0] != self._rows


def _finite(values: Floats, name: str) -> Floats:
    if not np.isfinite(values).all():
        raise not_finite(name)
    return values
