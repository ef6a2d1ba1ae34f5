"""A cache with states, which cannot go back but to snapshots."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Generic, TypeVar

from engine.backend.segment import SegmentCache

KeptT = TypeVar("KeptT")


class StateCache(SegmentCache, Generic[KeptT]):
    """A cache that may have states, and then goes back only to snapshots; without, to any slot.

    A state is that of the first committed tokens, and never of staged ones, whose rows are kept
    behind it. So it can stay where it is while drafts are rejected, and to go back further takes a
    snapshot.

    Args:
        rows: nodes that may be staged at a time, as many as are kept behind a state; 0: there are
            no states.

    Attributes:
        snapshots: the states at some numbers of tokens.
    """

    def __init__(self, rows: int) -> None:
        self._most_staged = rows or None
        self.snapshots: dict[int, KeptT] = {}

    @property
    @abstractmethod
    def past(self) -> int:
        """Tokens that the states have taken in."""

    @abstractmethod
    def most_snapshots(self, budget: int) -> int:
        """Return how many snapshots there may be, within so many bytes; at least one."""

    @abstractmethod
    def save(self, slots: int) -> KeptT:
        """Take all committed tokens, `slots`, into the states, and keep those.

        Raises:
            OutOfMemory: there is no memory for it.
        """

    @abstractmethod
    def restore(self, slots: int, kept: KeptT | None) -> None:
        """Go back to states after `slots` tokens that were kept; None: to the beginning."""

    @property
    def most_staged(self) -> int | None:
        """Nodes that may be staged at a time; None: as many as there are slots."""
        return self._most_staged

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` slots it can go back to."""
        if not self._most_staged or self.past <= slots:
            return slots
        return max((kept for kept in self.snapshots if kept <= slots), default=0)

    def crop(self, slots: int) -> None:
        """Go back to the first `slots` slots.

        Raises:
            ValueError: the states cannot go back there.
        """
        if not self._most_staged:
            return
        if self.past > slots:
            if slots and slots not in self.snapshots:
                raise ValueError("a state cannot go back without a snapshot")
            self.restore(slots, self.snapshots.get(slots))
        self.snapshots = {kept: own for kept, own in self.snapshots.items() if kept <= slots}

    def snapshot(self, slots: int, budget: int) -> None:
        """Keep the states as they are after `slots` tokens, all that are committed.

        Where there would be more of them than fit, the one goes that is nearest to another.

        Args:
            slots: the committed tokens.
            budget: most bytes of all snapshots; one is kept in any case.

        Raises:
            OutOfMemory: there is no memory for it.
        """
        if not self._most_staged or not slots or slots in self.snapshots:
            return
        while len(self.snapshots) >= self.most_snapshots(budget):
            places = sorted(self.snapshots)
            gaps = {place: place - before for before, place in pairwise([0, *places])}
            del self.snapshots[min(gaps, key=lambda place: gaps[place])]
        self.snapshots[slots] = self.save(slots)
