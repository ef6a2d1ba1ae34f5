"""Several sequence states of one model under a memory budget, least recently used first to go.

Coming back to another chat, editing or regenerating then prefills only what changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.decoder import Decoder
from engine.model.sequence import SequenceState


class StatePool:
    """Keeps states of one decoder, all of one context length.

    Args:
        decoder: the model.
        context: most committed tokens per state.
        budget_bytes: most bytes of keys and values; at least one state is always kept.
    """

    def __init__(self, decoder: Decoder, context: int, budget_bytes: int) -> None:
        self.decoder = decoder
        self.context = context
        self._budget = budget_bytes
        self._states: list[SequenceState] = []  # most recently used last

    def __len__(self) -> int:
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Bytes reserved by all states."""
        return sum(state.nbytes for state in self._states)

    def drop(self, state: SequenceState) -> None:
        """Give up a state, for one that an error may have left half written."""
        if state in self._states:
            self._states.remove(state)

    def common_prefix(self, tokens: Sequence[int]) -> int:
        """Most tokens that a kept state has in common with `tokens`."""
        return max((state.common_prefix(tokens) for state in self._states), default=0)

    def take(self, tokens: Sequence[int]) -> SequenceState:
        """The state that has most in common with `tokens`, or one with nothing to lose.

        A state of another conversation is not cut down to a short common opening while there is
        memory for a state of its own.
        """
        best = max(self._states, key=lambda state: state.common_prefix(tokens), default=None)
        if best is not None:
            common = best.common_prefix(tokens)
            if common * 2 >= len(best) or not self._has_room(best.nbytes):
                if common * 2 < len(best):
                    best = self._states[0]
                return self._touch(best)
        state = self.decoder.new_state(self.context)
        self._states.append(state)
        return state

    def _has_room(self, size: int) -> bool:
        return self.nbytes + size <= self._budget

    def _touch(self, state: SequenceState) -> SequenceState:
        self._states.remove(state)
        self._states.append(state)
        return state
