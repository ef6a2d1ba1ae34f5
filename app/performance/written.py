"""Tokens and kinds of text of an answer. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.performance.kind_tally import Counts, KindTally, add_up
from app.performance.tokens import AnswerTokens
from engine.events import RoundFinished, TextDelta


@dataclass(slots=True)
class WrittenAnswer:
    """The text of one answer, as far as it was heard."""

    tokens: AnswerTokens = field(default_factory=AnswerTokens)
    kinds: KindTally = field(default_factory=KindTally)

    def hear(self, delta: TextDelta) -> None:
        """Take in text; the round that wrote it is told next."""
        self.tokens.hear(delta)

    def add(self, done: RoundFinished) -> None:
        """Take in a round."""
        self.kinds.add(self.tokens.add(done))


@dataclass(slots=True)
class KindsByModel:
    """Kinds of text over all answers since the start, for each model by itself."""

    model: str = ""
    """The one that answers now."""
    _counts: dict[str, Counts] = field(default_factory=dict)
    answers: int = 0

    @property
    def counts(self) -> Counts:
        """Return the counts of the present model."""
        return self._counts.setdefault(self.model, {})

    def add(self, counts: Counts) -> None:
        """Count an answer that has ended."""
        self.answers += 1
        add_up(self.counts, counts)
