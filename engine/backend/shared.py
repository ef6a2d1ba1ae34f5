"""What segments of one model have in common on one device, such as a tied embedding and head."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from engine.backend.segment import Weights

T = TypeVar("T")


class Shared(Generic[T]):
    """Things made from the weights that a backend read last; kept as long as a segment has them.

    The weights are held on to, so a backend is let go when its model is compiled.
    """

    def __init__(self) -> None:
        self._source: Weights | None = None
        self._kept: WeakValueDictionary[Hashable, T] = WeakValueDictionary()

    def of(self, weights: Weights) -> WeakValueDictionary[Hashable, T]:
        """Those made from these weights, by name; other weights begin afresh."""
        if self._source is not weights:
            self._source, self._kept = weights, WeakValueDictionary()
        return self._kept
