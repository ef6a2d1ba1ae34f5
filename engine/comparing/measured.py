"""What the answers of one mode came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from engine.commands import Mode
from engine.events import AnswerStats, ModeRun, PlanSummary

FEWEST_TOKENS = 8
"""An answer that the model ends sooner says nothing about speed."""
_CLEARLY = 1.03
"""So much faster than the automatic choice a mode must be, in most answers."""
_MOST = 0.75


@dataclass(slots=True)
class MeasuredMode:
    """One mode; `answers` in the order of asking, which is the same in all modes."""

    mode: Mode
    plan: PlanSummary
    answers: list[AnswerStats] = field(default_factory=list)
    refusal: str = ""

    @property
    def run(self) -> ModeRun:
        """As the events tell it."""
        if self.refusal:
            return ModeRun(self.mode, None, refusal=self.refusal)
        speeds = tuple(_speed(stats) for stats in self.answers)
        known = [speed for speed in speeds if speed is not None]
        waits = [stats.ttft_s for stats in self.answers if stats.ttft_s is not None]
        return ModeRun(
            mode=self.mode,
            plan=self.plan,
            answers=len(known),
            tokens_per_s=median(known) if known else None,
            lowest=min(known, default=None),
            highest=max(known, default=None),
            ttft_s=median(waits) if waits else None,
            acceptance_length=acceptance_length(self.answers),
            speeds=speeds,
        )


def acceptance_length(answers: Sequence[AnswerStats]) -> float | None:
    """Over the rounds of all answers that verified something drafted."""
    weighed = [
        (stats.acceptance_length, stats.rounds - stats.plain_rounds)
        for stats in answers
        if stats.acceptance_length is not None
    ]
    rounds = sum(weight for _, weight in weighed)
    return sum(length * weight for length, weight in weighed) / rounds if rounds else None


def winner(runs: Sequence[ModeRun]) -> Mode | None:
    """The mode to use: the automatic choice, unless another one is clearly faster.

    That is so where most answers, each compared with the same one of the automatic choice, came
    clearly faster. None where nothing was measured.
    """
    known = [(run.tokens_per_s, run) for run in runs if run.tokens_per_s is not None]
    if not known:
        return None
    best = max(known, key=lambda each: each[0])[1]
    automatic = next((run for _, run in known if run.mode is Mode.AUTO), None)
    if automatic is None or _clearly_faster(best, automatic):
        return best.mode
    return Mode.AUTO


def _clearly_faster(one: ModeRun, other: ModeRun) -> bool:
    pairs = [
        (mine, its)
        for mine, its in zip(one.speeds, other.speeds, strict=False)
        if mine is not None and its is not None
    ]
    clear = sum(mine > _CLEARLY * its for mine, its in pairs)
    return bool(pairs) and clear >= _MOST * len(pairs)


def _speed(stats: AnswerStats) -> float | None:
    return stats.tokens_per_s if stats.committed >= FEWEST_TOKENS else None
