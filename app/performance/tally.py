"""The running counts of the answer being written, by the definitions of `AnswerStats`. No Qt."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.events import AnswerStats, Received, RoundFinished

_RATE_WINDOW_S = 1.0
_RECENT_ROUNDS = 16


@dataclass(slots=True)
class RateMeter:
    """Tokens per second over the last second, or over the last round where one takes longer."""

    _marks: deque[tuple[float, int]] = field(default_factory=deque)
    _total: int = 0

    def add(self, at: float, committed: int) -> float | None:
        """Count a round; None for the first, whose beginning is the prompt's processing."""
        self._total += committed
        self._marks.append((at, self._total))
        while len(self._marks) > 2 and self._marks[1][0] <= at - _RATE_WINDOW_S:
            self._marks.popleft()
        since, before = self._marks[0]
        return (self._total - before) / (at - since) if at > since else None


@dataclass(slots=True)
class AnswerTally:
    """Sums over the rounds of one answer.

    Round 0 gives the prefill's own token: it starts the clock and counts as no decode round.
    """

    request_id: str
    asked_at: float | None = None
    host: str = ""
    """The server that writes it; "" where it is written here."""
    committed: int = 0
    rounds: int = 0
    plain_rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    drafted_by_depth: list[int] = field(default_factory=list)
    accepted_by_depth: list[int] = field(default_factory=list)
    stats: AnswerStats | None = None
    """The engine's own account, once the answer has ended; it overrules ours."""
    now: float | None = None
    """Tokens per second of late; None before the second token and once the answer has ended."""
    _rate: RateMeter = field(default_factory=RateMeter)
    _drafting_tokens: int = 0
    _first_at: float | None = None
    _last_at: float = 0.0
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT_ROUNDS))

    def add(self, done: RoundFinished) -> None:
        """Count a round."""
        self.committed += done.committed
        self.now = self._rate.add(done.at, done.committed)
        if done.committed:
            self._last_at = done.at
            self._first_at = done.at if self._first_at is None else self._first_at
        if done.index == 0:
            return
        self.rounds += 1
        if not done.drafted:
            self.plain_rounds += 1
            return
        self.drafted += done.drafted
        self.accepted += min(done.accepted, done.committed)
        self._drafting_tokens += done.committed
        self._recent.append(done.committed)
        _add_up(self.drafted_by_depth, done.drafted_by_depth)
        _add_up(self.accepted_by_depth, done.accepted_by_depth)

    def receive(self, event: Received) -> None:
        """Count what has come from a server."""
        self.now = self._rate.add(event.at, event.tokens - self.committed)
        self.committed, self._last_at = event.tokens, event.at
        self._first_at = event.at if self._first_at is None else self._first_at

    def finish(self, stats: AnswerStats) -> None:
        """Take over the engine's account."""
        self.stats, self.now = stats, None
        self.committed, self.rounds = stats.committed, stats.rounds
        self.plain_rounds = stats.plain_rounds
        self.drafted, self.accepted = stats.drafted, stats.accepted
        self.drafted_by_depth = list(stats.drafted_by_depth)
        self.accepted_by_depth = list(stats.accepted_by_depth)

    @property
    def tokens_per_s(self) -> float | None:
        """Committed tokens from first to last."""
        if self.stats:
            return self.stats.tokens_per_s
        if self._first_at is None or self._last_at <= self._first_at:
            return None
        return (self.committed - 1) / (self._last_at - self._first_at)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens committed per target forward, over rounds that verified a drafted token."""
        if self.stats:
            return self.stats.acceptance_length
        drafting = self.rounds - self.plain_rounds
        return self._drafting_tokens / drafting if drafting else None

    @property
    def per_verification(self) -> float | None:
        """Tokens committed per round, whether anything was drafted for it or not."""
        return (self.committed - 1) / self.rounds if self.rounds else None

    @property
    def recent_acceptance_length(self) -> float | None:
        """Return the acceptance length over the last sixteen of those rounds."""
        return sum(self._recent) / len(self._recent) if self._recent else None

    @property
    def accepted_share(self) -> float | None:
        """Accepted of all drafted tokens, 0 to 1."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the user's click to the first token, where the click is known."""
        if self.stats:
            return self.stats.ttft_s
        if self.asked_at is None or self._first_at is None:
            return None
        return self._first_at - self.asked_at

    @property
    def by_depth(self) -> list[tuple[int, int]]:
        """(on offer, accepted) for each depth from 1 on."""
        accepted = self.accepted_by_depth + [0] * len(self.drafted_by_depth)
        return list(zip(self.drafted_by_depth, accepted, strict=False))


def _add_up(sums: list[int], values: tuple[int, ...]) -> None:
    sums.extend([0] * (len(values) - len(sums)))
    for depth, value in enumerate(values):
        sums[depth] += value
