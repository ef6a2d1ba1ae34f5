"""The measurement of one mode: its pair, which others may be using as well, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

from engine.backend.prefix_cache import PrefixCache
from engine.bench.harness import acceptance_length, answer
from engine.bench.modes.candidates import ModeCandidate
from engine.bench.modes.questions import Question
from engine.commands import Mode
from engine.errors import Cancelled, OutOfMemory
from engine.events import AnswerStats, ModeRun, PlanSummary
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.parallel_controller import ParallelController
from engine.speculative.serial_controller import SerialController

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
        """The result as events carry it."""
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


def own_states(pair: LoadedPair) -> PrefixCache:
    """Return a prefix cache of its own; those of chats give way only where memory is short."""
    own = PrefixCache(pair.target, pair.states.context)
    try:
        own.take([0])
    except OutOfMemory:
        pair.states.clear()
        own.take([0])
    return own


def borrowed(pair: LoadedPair, candidate: ModeCandidate, states: PrefixCache) -> LoadedPair:
    """Return the pair as a mode would run it, with `own_states` and beliefs of its own.

    So measuring neither finds a chat's tokens in the prefix cache nor uses what chats have taught
    the controller.
    """
    return replace(
        pair,
        states=states,
        loop=_afresh(pair.loop, candidate),
        plan=candidate.plan,
        summary=replace(candidate.checked.summary, signature=pair.target.signature),
    )


def _afresh(loop: Loop, candidate: ModeCandidate) -> Loop:
    """Return the loop as if it had decoded nothing yet."""
    plan, command = candidate.plan, candidate.checked.inspection.command
    forced = command.forces_drafting
    if plan.draft_device is None:
        return Plain()
    if isinstance(loop, Serial):
        return replace(loop, controller=SerialController(plan.expected, forced=forced))
    if isinstance(loop, Parallel):
        ahead = command.mode is Mode.DUO
        return replace(
            loop, controller=ParallelController(plan.expected, forced=forced, ahead=ahead)
        )
    return loop


def ask(
    pair: LoadedPair, question: Question, tokens: int, cancelled: Callable[[], bool]
) -> AnswerStats:
    """Have one answer written, greedily, all of its question read anew.

    Raises:
        Cancelled: the user wants something else.
        UserFixable: it cannot be answered.
    """
    pair.states.empty()
    request = ChatRequest(
        "compare", question.messages, max_tokens=tokens, clicked_at=perf_counter(), thinking=False
    )
    done = answer(pair, request, cancelled)
    if cancelled():
        raise Cancelled
    return done.stats


def winner(runs: Sequence[ModeRun]) -> Mode | None:
    """Return the mode to use: the automatic choice, unless another one is clearly faster.

    Clearly faster: most answers came clearly faster than the automatic choice's same ones. None
    where nothing was measured.
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
