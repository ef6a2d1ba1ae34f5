"""A draft may begin to read a sequence with its first token, or with its end only.

What the answer is about to say depends mostly on what was said last. A draft that has begun in the
middle counts positions from there, as if nothing had been before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from engine.backend.prefix_cache import OPENING, SNAPSHOT_EVERY, PrefixCache
from engine.backend.round import Ranking
from engine.backend.sequence import SequenceState

CATCH_UP_CHUNK = 64
"""Committed tokens processed at once; the user's stop is obeyed in between."""
_WORTH_KEEPING = 16
"""Tokens that a state begun in the middle must have in common with a sequence to go on from it."""
_STARTS = 8
"""Beginnings in the middle of a sequence that are remembered: those of the last chats."""


class Beginnings:
    """Chooses where a draft begins to read, answer after answer.

    Args:
        pool: keeps the draft's states.
        skipped: so many of a sequence's first tokens are none of the draft's.

    Attributes:
        start: place in the sequence of the state's first token.
    """

    def __init__(self, pool: PrefixCache, skipped: int = 0) -> None:
        self.pool = pool
        self.start = self._skipped = skipped
        self._begun = False
        self._known = self._known_whole = skipped
        """Places up to which kept states know the sequence: the best of all, and the best that
        begins with its first token."""
        self._starts: deque[int] = deque(maxlen=_STARTS)

    def begin(self, tokens: Sequence[int]) -> None:
        """Find the kept state that knows most of the tokens; one that knows the beginning first."""
        self.start, self._begun = self._skipped, False
        self._known = self._known_whole = self._known_from(tokens, self._skipped)
        for start in self._starts:
            known = self._known_from(tokens, start)
            if known > self._known and known - start >= _WORTH_KEEPING:
                self.start, self._known = start, known

    def _known_from(self, tokens: Sequence[int], start: int) -> int:
        return start + self.pool.common_prefix(tokens[start:])

    def missing(self, length: int) -> int:
        """Return how many of so many tokens no kept state knows; of all, once begun in the middle.

        Before it has begun that is one at least.
        """
        if not self._begun:
            return max(length - self._known, 1)
        return length - self._known_whole if self.start > self._skipped else 0

    def choose(self, length: int, most: int) -> bool:
        """Begin: with what a kept state knows, or with the last `most` of so many tokens.

        Returns:
            Whether there is room for them; it has not begun where there is not.
        """
        start, known = self.start, self._known
        if self._begun:
            start, known = self._skipped, self._known_whole
        if length - known > most:
            start = max(length - most, self._skipped)
        if length - start > self.pool.context:
            return False
        if start > self._skipped and start not in self._starts:
            self._starts.append(start)
        self.start, self._begun = start, True
        return True

    def piece(self, state: SequenceState, left: int) -> int:
        """Return how many of so many tokens that are left to read are processed at once.

        Of a state that needs ways back, one lies before what opens the answer, as the target's.
        """
        border = left - OPENING if state.recurrent else 0
        return min(CATCH_UP_CHUNK, border if border > 0 else left)

    def keep(self, state: SequenceState, left: int) -> None:
        """Keep a way back where a piece has ended, if the state needs one and others are far."""
        if left <= OPENING or len(state) % SNAPSHOT_EVERY < CATCH_UP_CHUNK:
            self.pool.snapshot(state)

    @property
    def shift(self) -> int:
        """Tokens of the draft's that it has left out."""
        return self.start - self._skipped

    def shifted(self, ranking: Ranking) -> Ranking:
        """Return a ranking for the positions that it counts."""
        return replace(ranking, shift=self.shift) if self.shift else ranking
