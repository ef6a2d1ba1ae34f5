"""The prefix cache: sequence states of one model, the least recently used dropped first.

States are kept under a memory budget: coming back to another chat, editing or regenerating then
prefills only what changed. Whoever asks finds only states of their own: how much of a prompt was
there already, or how soon its answer began, would tell what others have written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.errors import OutOfMemory

MOST_STATES = 32
"""Each answer looks through all of them; of a small model, memory would hold thousands."""
SNAPSHOT_EVERY = 512
"""Tokens of a prompt between ways back, of a state that needs some: another question may follow."""

OPENING = 8
"""Tokens that a chat template may open an answer with."""


class PrefixCache:
    """Keeps states of one decoder, all of one context length: `MOST_STATES` at most.

    Args:
        decoder: the model.
        context: most committed tokens per state.
        budget_bytes: most bytes that may be reserved; at least one state is always kept.

    Attributes:
        spare: bytes of memory that are left for it by now, where memory comes as it is touched;
            None: only what is reserved counts.
    """

    def __init__(self, decoder: Decoder, context: int, budget_bytes: int = 0) -> None:
        self.decoder = decoder
        self.context = context
        self.budget_bytes = budget_bytes
        self.spare: Callable[[], int] | None = None
        self._states: dict[SequenceState, str] = {}  # with who asked; most recently used last

    def __len__(self) -> int:
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Bytes reserved by all states, snapshots included."""
        return sum(state.nbytes for state in self._states)

    def drop(self, state: SequenceState) -> None:
        """Drop a state, such as one that an error may have left half written."""
        self._states.pop(state, None)

    def empty(self) -> None:
        """Forget the tokens of all states, when they no longer mean the same."""
        for state in self._states:
            state.crop(0)

    def clear(self) -> None:
        """Drop all states and free their memory."""
        self._states.clear()

    def common_prefix(self, tokens: Sequence[int]) -> int:
        """Most of the first of `tokens` that a kept state can go on from."""
        return max((_common(state, tokens) for state in self._states), default=0)

    def take(self, tokens: Sequence[int], asker: str = "") -> SequenceState:
        """A state that begins with as many of `tokens` as any kept state of this asker does.

        A state that goes on differently is not cut down: what the two have in common is copied,
        as long as there is memory for one more state.

        Raises:
            OutOfMemory: there is no state yet, and no memory for one.
        """
        recent_first = (each for each in reversed(self._states) if self._is_open_to(asker, each))
        best = max(recent_first, key=lambda state: _common(state, tokens), default=None)
        common = _common(best, tokens) if best is not None else 0
        spare = next(reversed(self._states), None) if best is None else best
        if spare is not None and (common == len(spare) or not self._make_room(spare)):
            return self._given(spare, asker, common)
        while True:
            try:
                state = self.decoder.new_state(self.context)
                break
            except (OutOfMemory, MemoryError) as error:
                if self._give_up_one(spare):
                    continue
                if spare is None or isinstance(error, MemoryError):
                    raise
                return self._given(spare, asker, common)
        if best is not None and common:
            state.copy_prefix(best, common)
        self._states[state] = asker
        return state

    def _is_open_to(self, asker: str, state: SequenceState) -> bool:
        return self._states[state] == asker or not len(state)

    def snapshot(self, state: SequenceState) -> None:
        """Keep a way back to where a state is, if it needs one and there is memory for it.

        So a turn that is edited, or written anew, reads only what comes behind.
        """
        left = self.budget_bytes - self.nbytes if self.spare is None else self.spare()
        with suppress(OutOfMemory, MemoryError):
            state.snapshot(max(left + state.snapshot_bytes, 0))

    def _make_room(self, keep: SequenceState) -> bool:
        """Room for one more state beside `keep`, the least recently used ones given up for it."""
        while len(self._states) >= MOST_STATES or not self._has_room(keep):
            if not self._give_up_one(keep):
                return False
        return True

    def _has_room(self, like: SequenceState) -> bool:
        """Tell whether there is room for one more state, as long as another.

        Snapshots count as memory by now, and not as what is reserved.
        """
        reserved = sum(each.nbytes - each.snapshot_bytes for each in (*self._states, like))
        return reserved <= self.budget_bytes and (self.spare is None or self.spare() >= 0)

    def _give_up_one(self, keep: SequenceState | None) -> bool:
        """Give up the least recently used state but `keep`; False: there is no other."""
        oldest = next((state for state in self._states if state is not keep), None)
        if oldest is not None:
            del self._states[oldest]
        return oldest is not None

    def _given(self, state: SequenceState, asker: str, common: int) -> SequenceState:
        """A kept state, now this asker's; of what is another's, nothing is left in it.

        Others are given up where they have come to leave no memory for it.
        """
        while self.spare is not None and self.spare() < 0 and self._give_up_one(state):
            pass
        if self._states.pop(state) != asker and common < len(state):
            state.crop(0)
        self._states[state] = asker
        return state


def _common(state: SequenceState, tokens: Sequence[int]) -> int:
    """Return how many of the first of `tokens` a state knows and can go back to."""
    return state.reusable(state.common_prefix(tokens))
