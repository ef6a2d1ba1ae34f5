"""The tokens of one answer with the rounds that wrote them, and what was refused. No Qt."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from engine.events import Origin, RoundFinished, TextDelta, TokenSpan
from engine.language import later

_MOST_KEPT = 100_000
"""Rounds, as in `Timeline`."""


class Fate(StrEnum):
    """Fates of a token; the values are texts for `tr`."""

    ACCEPTED = later("drafted and accepted")
    OWN = later("the target's own")
    REJECTED = later("drafted and rejected")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is shown.

    Attributes:
        start, end: UTF-16 units of the answer; equal where nothing of it is in the answer.
        probability: probability by the target, 0 to 1.
        draft_probability: probability by the draft.
    """

    text: str
    fate: Fate
    start: int
    end: int
    probability: float | None = None
    draft_probability: float | None = None


@dataclass(frozen=True, slots=True)
class RoundTokens:
    """A round, the text that came with it, and the tokens that wrote this text."""

    done: RoundFinished
    text: str
    spans: tuple[TokenSpan, ...]

    @property
    def count(self) -> int:
        """Return the number of `tokens`."""
        return len(self.spans) + (self._refused() is not None)

    def tokens(self) -> list[Token]:
        """Return the tokens in the text's order; a refused one stands before its replacement."""
        found = list(self._written())
        refused = self._refused()
        if refused is not None:
            # Where the target's own token is still held back, nothing stands behind.
            replaced = found and found[-1].fate is Fate.OWN and refused.start < found[-1].end
            found.insert(len(found) - 1 if replaced else len(found), refused)
        return found

    def _written(self) -> Iterator[Token]:
        units = Units(self.text)
        first = self.spans[0].start if self.spans else 0
        accepted = [guess for guess in self.done.guesses if guess.accepted]
        drafted = sum(span.origin is Origin.DRAFTED for span in self.spans)
        # Where half a character was held back, nobody can say which guess a token was.
        guesses = iter(accepted if len(accepted) == drafted else ())
        for span in self.spans:
            text = units.between(span.start - first, span.end - first)
            if span.origin is Origin.DRAFTED:
                guess = next(guesses, None)
                chance = None if guess is None else guess.draft_probability
                told = span.probability
                if told is None and guess is not None:
                    told = guess.probability
                yield Token(text, Fate.ACCEPTED, span.start, span.end, told, chance)
            else:
                yield Token(text, Fate.OWN, span.start, span.end, span.probability)

    def _refused(self) -> Token | None:
        done = self.done
        guess = next((each for each in done.guesses if not each.accepted), None)
        text = done.rejected or ("" if guess is None else guess.text)
        if not text:
            return None
        at = done.rejected_at
        if guess is None:
            return Token(text, Fate.REJECTED, at, at)
        return Token(text, Fate.REJECTED, at, at, guess.probability, guess.draft_probability)


class Units:
    """A text by UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._text = text
        wide = not text.isascii() and max(text) > "\uffff"
        self._encoded = text.encode("utf-16-le", "surrogatepass") if wide else None

    def between(self, start: int, end: int) -> str:
        """The letters of a stretch."""
        if self._encoded is None:
            return self._text[start:end]
        return self._encoded[2 * start : 2 * end].decode("utf-16-le", "replace")


@dataclass(slots=True)
class _Heard:
    """Text with its tokens of which no round was told yet; that of several rounds comes as one."""

    _text: list[str] = field(default_factory=list)
    _spans: list[TokenSpan] = field(default_factory=list)
    _taken: int = 0
    """Spans that rounds have."""
    _units: Units | None = None

    def misses_what_is_before(self, delta: TextDelta) -> bool:
        """Return whether text between this and `delta` was lost."""
        spans = self._spans
        return bool(spans and delta.spans) and delta.spans[0].start != spans[-1].end

    def append(self, delta: TextDelta) -> None:
        """The text goes on."""
        self._text.append(delta.text)
        self._spans += delta.spans
        self._units = None

    def take(self, end: int | None = None) -> tuple[str, tuple[TokenSpan, ...]]:
        """Take the text and tokens up to the unit `end` of the answer, or all that is left."""
        spans, first = self._spans, self._taken
        last = len(spans)
        if end is not None:
            last = bisect_right(spans, end, lo=first, key=attrgetter("end"))
        whole = (first, last) == (0, len(spans))
        text = "".join(self._text) if whole else self._between(first, last)
        self._taken = last
        taken = tuple(spans[first:last])
        if last == len(spans):
            self._text, self._spans, self._taken, self._units = [], [], 0, None
        return text, taken

    def _between(self, first: int, last: int) -> str:
        if first == last:
            return ""
        if self._units is None:
            self._units = Units("".join(self._text))
        spans, begin = self._spans, self._spans[0].start
        return self._units.between(spans[first].start - begin, spans[last - 1].end - begin)


@dataclass(slots=True)
class AnswerTokens:
    """Grows with the answer."""

    request_id: str = ""
    rounds: list[RoundTokens] = field(default_factory=list)
    """Oldest first; of a very long answer the newest."""
    dropped: int = 0
    """Number of older rounds that are gone."""
    _heard: _Heard = field(default_factory=_Heard)

    def hear(self, delta: TextDelta) -> None:
        """Take in text; the rounds that wrote it are told next."""
        if self._heard.misses_what_is_before(delta):
            self._heard = _Heard()
        self._heard.append(delta)

    def add(self, done: RoundFinished) -> RoundTokens:
        """Take a round in, with the text that it wrote of what was heard."""
        added = RoundTokens(done, *self._heard.take(done.text_end))
        self.rounds.append(added)
        if len(self.rounds) > _MOST_KEPT:
            self.dropped += _MOST_KEPT // 2
            del self.rounds[: _MOST_KEPT // 2]
        return added

    def finish(self) -> None:
        """The answer has ended: what was held back until now belongs to the last round."""
        text, spans = self._heard.take()
        if self.rounds and spans:
            last = self.rounds[-1]
            self.rounds[-1] = RoundTokens(last.done, last.text + text, last.spans + spans)

    def place(self, done: RoundFinished) -> int | None:
        """Return where a round is in the list."""
        index = bisect_left(self.rounds, done.index, key=lambda each: each.done.index)
        there = index < len(self.rounds) and self.rounds[index].done is done
        return index if there else None
