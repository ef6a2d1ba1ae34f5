"""Finds out that an answer repeats itself and will not stop doing so.

Small models fall into loops: a passage comes again and again, each time more probable than the
time before, until the context is full. Tables, lists, code and songs repeat themselves too, but
always with something new in between; so only an exact and long repetition counts, of which the
model is sure. In running text sentences count too: several in a row that say, but for a word, what
one of the last few has said.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

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
SENTENCES, LINES = 8, 24
"""Sentences in a row that repeat one before them: in running text, and where each has a line."""
WORDS = 6
"""Fewest tokens of a sentence that counts."""
ALIKE = 0.85
"""Share of tokens, in order, that two sentences have in common where one repeats the other."""
HALF_SURE = 0.5
"""Mean probability that the model has to give to repeated sentences."""
_BACK = 3
"""Sentences back that one may repeat."""
_ENDS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")


class Sentences:
    """Counts the sentences in a row that repeat one of the last few.

    Args:
        text_of: the text of a token.
    """

    def __init__(self, text_of: Callable[[int], str]) -> None:
        self._text_of = text_of
        self._known: dict[int, str] = {}
        self._now: list[int] = []
        self._sure = 0.0
        """Sum of the probabilities of the sentence under way."""
        self._last: deque[tuple[int, ...]] = deque(maxlen=_BACK)
        self._lines = self._prose = 0
        self._total, self._tokens = 0.0, 0
        self._ended = False

    def push(self, token: int, probability: float) -> bool:
        """Take in a token; return whether it shows that the text goes round in circles."""
        text = self._known.get(token)
        if text is None:
            text = self._known[token] = self._text_of(token)
        found = self._ended and text[:1].isspace() and self._finish(in_line="\n" in text)
        self._now.append(token)
        self._sure += probability
        self._ended = text.rstrip().endswith(_ENDS)
        if len(self._now) > LONGEST:
            self._now.clear()
        return found

    def _finish(self, *, in_line: bool) -> bool:
        """Compare a sentence with those before it; `in_line`: its line ends with it."""
        sentence, sure = tuple(self._now), self._sure
        self._now, self._sure = [], 0.0
        if len(sentence) < WORDS:
            return False
        if not any(self._repeats(sentence, before) for before in self._last):
            self._lines = self._prose = self._tokens = 0
            self._total = 0.0
        else:
            self._lines += 1
            self._prose = 0 if in_line else self._prose + 1
            self._total, self._tokens = self._total + sure, self._tokens + len(sentence)
        self._last.append(sentence)
        enough = self._prose >= SENTENCES or self._lines >= LINES
        return enough and self._total >= HALF_SURE * self._tokens

    def _repeats(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Return whether a sentence repeats another: counting on is no repetition."""
        if one == other:
            return True
        if _most_alike(one, other) < ALIKE or self._digits(one) != self._digits(other):
            return False
        return SequenceMatcher(None, one, other, autojunk=False).ratio() >= ALIKE

    def _digits(self, sentence: tuple[int, ...]) -> list[int]:
        return [each for each in sentence if any(map(str.isdigit, self._known.get(each, "")))]


def _most_alike(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return what `SequenceMatcher.ratio` is at most: the order is left out, which takes long."""
    both, whole = min(len(one), len(other)), len(one) + len(other)
    if 2 * both < ALIKE * whole:
        return 2 * both / whole
    return 2 * (Counter(one) & Counter(other)).total() / whole


class RepetitionDetector:
    """Watches the committed tokens of one answer. Time per token is constant on average.

    The answer is a function of its tokens: whoever stops at the token that completes a repetition
    stops at the same one however many tokens a round commits.

    Args:
        text_of: the text of a token; None: sentences are not compared.
    """

    def __init__(self, text_of: Callable[[int], str] | None = None) -> None:
        self._sentences = None if text_of is None else Sentences(text_of)
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
            if self._sentences is not None and self._sentences.push(token, probability):
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
