"""The counts and times of one answer: what acceptance length and tokens/s mean."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from engine.backend.round import Round
from engine.events import AnswerStats

_FEW_PLAIN, _NEWEST_PLAIN = 3, 400
"""Rounds without a draft that make a typical one, and those that are looked at."""


@dataclass(slots=True)
class Tally:
    """Counts and times of one answer, of committed tokens only (the end token is not one)."""

    prompt_tokens: int = 0
    reused: int = 0
    committed: int = 0
    first_at: float | None = None
    last_at: float | None = None
    rounds: int = 0
    plain_rounds: int = 0
    drafting_rounds: int = 0
    drafting_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    offered_by_depth: list[int] = field(default_factory=list)
    accepted_by_depth: list[int] = field(default_factory=list)
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    useful_seconds: float = 0.0
    wasted_seconds: float = 0.0
    plain_times: deque[float] = field(default_factory=lambda: deque(maxlen=_NEWEST_PLAIN))

    def add(self, done: Round, counted: int, *, first: bool) -> None:
        """Count a round of which `counted` tokens belong to the answer."""
        if not first and not done.drafted and not done.drafting and self.last_at is not None:
            self.plain_times.append(done.verify.end - self.last_at)
        self.committed += counted
        if counted:
            self.last_at = done.verify.end
            self.first_at = self.first_at or self.last_at
        if first:
            return
        self.rounds += 1
        self.verify_seconds += done.verify.seconds
        self.draft_seconds += sum(each.seconds for each in done.drafting)
        self.useful_seconds += done.useful
        self.wasted_seconds += done.wasted
        self.drafted += done.drafted
        if not done.drafted:
            self.plain_rounds += 1
            return
        self.drafting_rounds += 1
        self.drafting_tokens += counted
        self.accepted += min(done.accepted, counted)
        _add_up(self.offered_by_depth, done.verified.offered_by_depth[:counted])
        _add_up(self.accepted_by_depth, done.verified.accepted_by_depth[:counted])

    def stats(self, started: float, fallback_reason: str | None) -> AnswerStats:
        """The answer's statistics; `started` is when the user asked."""
        decoding = (self.last_at or 0.0) - (self.first_at or 0.0)
        rounds = self.drafting_rounds
        return AnswerStats(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused,
            committed=self.committed,
            rounds=self.rounds,
            plain_rounds=self.plain_rounds,
            drafted=self.drafted,
            accepted=self.accepted,
            drafted_by_depth=tuple(self.offered_by_depth),
            accepted_by_depth=tuple(self.accepted_by_depth),
            acceptance_length=self.drafting_tokens / rounds if rounds else None,
            ttft_s=None if self.first_at is None else self.first_at - started,
            tokens_per_s=(self.committed - 1) / decoding if decoding > 0 else None,
            seconds=perf_counter() - started,
            draft_seconds=self.draft_seconds,
            verify_seconds=self.verify_seconds,
            fallback_reason=fallback_reason,
            decode_seconds=decoding,
            useful_seconds=self.useful_seconds,
            wasted_seconds=self.wasted_seconds,
            plain_round_s=median(self.plain_times) if len(self.plain_times) >= _FEW_PLAIN else None,
        )


def _add_up(sums: list[int], values: Sequence[int]) -> None:
    sums.extend([0] * (len(values) - len(sums)))
    for depth, value in enumerate(values):
        sums[depth] += value
