"""Weights that segments share on one device: a tied embedding and head, a draft's loans."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from engine.backend.segment import Backend
from engine.model.weights.readable import Weights

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

    @property
    def kept(self) -> Mapping[Hashable, T]:
        """Those made from the weights that were read last."""
        return self._kept


@dataclass(frozen=True, slots=True)
class Lent:
    """A target's matrix that a feature head computes with, in the type that the target holds.

    Attributes:
        name: the target's name of it.
        kind: its type in ggml's words.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Loan:
    """Tensors that a feature head's backend takes over from its target's.

    Attributes:
        lent: by the head's names; the head's weights give these tensors, too.
        lender: the target's backend on the same device; what it has packed is not held twice. None
            where the target has nothing there.
    """

    lent: Mapping[str, Lent]
    lender: Backend | None = None

    def find(self, held: type[T], name: str, *fmt: Hashable) -> T | None:
        """The target's matrix that the head calls `name`, if it lies here.

        Args:
            held: the type of the backend's matrices.
            name: the head's.
            fmt: the format, on backends that hold a matrix in several.
        """
        lent = self.lent.get(name)
        if lent is None or self.lender is None:
            return None
        found = self.lender.kept.get((lent.name, *fmt) if fmt else lent.name)
        return found if isinstance(found, held) else None


NO_LOAN = Loan({})
"""What every other model's backend takes over."""
