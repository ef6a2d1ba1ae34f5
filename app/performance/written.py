"""Text of an answer: its tokens, and acceptance by kind of text. No Qt."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from app.performance.tokens import AnswerTokens, RoundTokens
from engine.events import RoundFinished, TextDelta
from engine.model.text.kinds_of_text import KindsOfText, TextKind


@dataclass(slots=True)
class KindCount:
    """Rounds that began in one kind of text."""

    tokens: int = 0
    rounds: int = 0
    """Number of rounds that verified a drafted token, as in `acceptance_length`."""
    committed: int = 0
    """Tokens committed in these rounds."""
    drafted: int = 0
    accepted: int = 0

    def add(self, done: RoundFinished) -> None:
        """Count a round; the prompt's own is none."""
        self.tokens += done.committed
        if done.index and done.drafted:
            self.rounds += 1
            self.committed += done.committed
            self.drafted += done.drafted
            self.accepted += min(done.accepted, done.committed)

    def add_count(self, more: KindCount) -> None:
        """Add another count."""
        self.tokens += more.tokens
        self.rounds += more.rounds
        self.committed += more.committed
        self.drafted += more.drafted
        self.accepted += more.accepted

    @property
    def acceptance_length(self) -> float | None:
        """Tokens committed per target forward that verified a drafted token."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def accepted_share(self) -> float | None:
        """Accepted of all drafted tokens, 0 to 1."""
        return self.accepted / self.drafted if self.drafted else None


Counts = dict[TextKind, KindCount]


@dataclass(slots=True)
class KindTally:
    """The rounds of one answer by kind of text. Rounds of a line still growing are counted last."""

    _text: KindsOfText = field(default_factory=KindsOfText)
    _settled: Counts = field(default_factory=dict)
    _open: deque[RoundFinished] = field(default_factory=deque)

    def add(self, added: RoundTokens) -> None:
        """Take in a round with its text."""
        done, text = added.done, self._text
        if added.spans:
            text.begin_at(added.spans[0].start)
        thought = text.began_inside_a_thought
        text.feed(added.text)
        self._open.append(done)
        if text.began_inside_a_thought and not thought:
            whole = KindCount()
            for count in self._settled.values():
                whole.add_count(count)
            self._settled = {TextKind.THINKING: whole}
        while self._open and self._open[0].text_start < text.settled:
            _count(self._settled, text.at(self._open[0].text_start), self._open.popleft())

    @property
    def counts(self) -> Counts:
        """All rounds so far, by kind."""
        found: Counts = {}
        add_up(found, self._settled)
        for done in self._open:
            _count(found, self._text.at(done.text_start), done)
        return found


def add_up(sums: Counts, more: Counts) -> None:
    """Add counts to others."""
    for kind, count in more.items():
        sums.setdefault(kind, KindCount()).add_count(count)


def _count(counts: Counts, kind: TextKind, done: RoundFinished) -> None:
    counts.setdefault(kind, KindCount()).add(done)


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
