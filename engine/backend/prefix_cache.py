"""The prefix cache: sequence states of one model, the least recently used dropped first.

States are kept under a memory budget: coming back to another chat, editing or regenerating then
prefills only what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.errors import OutOfMemory

MOST_STATES = 32
"""Each answer looks through all of them; of a small model, memory would hold thousands."""


class PrefixCache:
    """Keeps states of one decoder, all of one context length: `MOST_STATES` at most.

    Args:
        decoder: the model.
        context: most committed tokens per state.
        budget_bytes: most bytes of keys and values; at least one state is always kept.
    """

    def __init__(self, decoder: Decoder, context: int, budget_bytes: int = 0) -> None:
        self.decoder = decoder
        self.context = context
        self.budget_bytes = budget_bytes
        self._states: list[SequenceState] = []  # most recently used last

    def __len__(self) -> int:
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Bytes reserved by all states."""
        return sum(state.nbytes for state in self._states)

    def drop(self, state: SequenceState) -> None:
        """Drop a state, such as one that an error may have left half written."""
        if state in self._states:
            self._states.remove(state)

    def empty(self) -> None:
        """Forget the tokens of all states, when they no longer mean the same."""
        for state in self._states:
            state.crop(0)

    def clear(self) -> None:
        """Drop all states and free their memory."""
        self._states.clear()

    def common_prefix(self, tokens: Sequence[int]) -> int:
        """Most tokens that a kept state has in common with `tokens`."""
        return max((state.common_prefix(tokens) for state in self._states), default=0)

    def take(self, tokens: Sequence[int]) -> SequenceState:
        """A state that begins with as many of `tokens` as any kept state does.

        A state that goes on differently is not cut down: what the two have in common is copied,
        as long as there is memory for one more state.

        Raises:
            OutOfMemory: there is no state yet, and no memory for one.
        """
        recent_first = reversed(self._states)
        best = max(recent_first, key=lambda state: state.common_prefix(tokens), default=None)
        common = best.common_prefix(tokens) if best is not None else 0
        if best is not None and (common == len(best) or not self._make_room(best)):
            return self._touch(best)
        try:
            state = self.decoder.new_state(self.context)
        except OutOfMemory:
            if best is None:
                raise
            return self._touch(best)
        if best is not None and (kept := best.reusable(common)):
            state.copy_prefix(best, kept)
        self._states.append(state)
        return state

    def snapshot(self, state: SequenceState) -> None:
        """Keep a way back to where a state is, if it needs one and there is memory for it.

        So a turn that is edited, or written anew, reads only what comes behind.
        """
        others = self.nbytes - state.snapshot_bytes
        with suppress(OutOfMemory, MemoryError):
            state.snapshot(max(self.budget_bytes - others, 0))

    def _make_room(self, keep: SequenceState) -> bool:
        """Room for one more state beside `keep`, the least recently used ones given up for it."""
        while len(self._states) >= MOST_STATES or self.nbytes + keep.nbytes > self.budget_bytes:
            oldest = next((state for state in self._states if state is not keep), None)
            if oldest is None:
                return False
            self._states.remove(oldest)
        return True

    def _touch(self, state: SequenceState) -> SequenceState:
        self._states.remove(state)
        self._states.append(state)
        return state
