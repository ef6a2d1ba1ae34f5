"""Finds out that an answer repeats itself and will not stop doing so.

Small models fall into loops: a passage comes again and again, each time more probable than the
time before, until the context is full. Tables, lists, code and songs repeat themselves too, but
always with something new in between; so only an exact and long repetition counts, of which the
model is sure.
"""

from __future__ import annotations

from collections.abc import Sequence

NGRAM = 8
"""Tokens that have to come again before a passage is compared at all."""
LONGEST = 400
"""Longest passage that is looked for, in tokens."""
LEAST = 400
"""Tokens that have to repeat the passage before them."""
TIMES = 4
"""How many times the passage has to come again."""
SURE = 0.8
"""Mean probability that the model has to give to the repeated tokens."""


class RepetitionDetector:
    """Watches the committed tokens of one answer. Time per token is constant on average.

    The answer is a function of its tokens: whoever stops at the token that completes a repetition
    stops at the same one however many tokens a round commits.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._seen: dict[tuple[int, ...], int] = {}
        """Recent n-grams, each with the number of tokens at its latest end."""
        self._period = 0
        """Length of the passage that is being repeated; 0: none is."""
        self._run = 0
        """Number of the last tokens that are the same as one period before."""
        self._sure = 0.0
        """Sum of their probabilities."""

    def find(self, tokens: Sequence[int], probabilities: Sequence[float] = ()) -> int | None:
        """Take in committed tokens; return how many of them complete a repetition, or None.

        Args:
            tokens: the next ones.
            probabilities: what the target gives each of them; none where they are not known.
        """
        known = probabilities or (1.0,) * len(tokens)
        for count, (token, probability) in enumerate(zip(tokens, known, strict=True), start=1):
            self._push(token, probability)
            if self._run >= max(LEAST, TIMES * self._period) and self._sure >= SURE * self._run:
                return count
        return None

    def _push(self, token: int, probability: float) -> None:
        tokens, period = self._tokens, self._period
        repeats = period and token == tokens[-period]
        tokens.append(token)
        end = len(tokens)
        ngram = tuple(tokens[-NGRAM:])
        before = self._seen.get(ngram)
        if len(self._seen) > 4 * LONGEST:
            self._seen.clear()
        self._seen[ngram] = end
        if repeats:
            self._run += 1
            self._sure += probability
        elif before is not None and end - before <= LONGEST:
            self._period, self._run, self._sure = end - before, 0, 0.0
        else:
            self._period = 0
