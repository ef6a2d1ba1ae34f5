"""Modes that can run here, the pairs that they share, and what was measured of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

from engine.backend.prefix_cache import PrefixCache
from engine.bench.harness import acceptance_length, answer
from engine.bench.modes.questions import Question
from engine.commands import Load, Mode
from engine.errors import Cancelled, OutOfMemory, UserFixable
from engine.events import AnswerStats, ModeRun, PlanSummary
from engine.loading.load import LoadedPair, controller_of
from engine.loading.planned_load import PlannedLoad
from engine.plan.plan import Plan
from engine.request import ChatRequest
from engine.speculative.loops import Loop, Parallel, Plain, Serial

MODES = (Mode.AUTO, Mode.DUO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN)
"""Each one that can be chosen; the automatic choice first, with which others may coincide."""
FEWEST_TOKENS = 8
"""An answer that the model ends sooner says nothing about speed."""
_CLEARLY = 1.03
"""So much faster than the automatic choice a mode must be, in most answers."""
_MOST = 0.75


@dataclass(frozen=True, slots=True)
class ModeCandidate:
    """A mode that has a plan of its own."""

    mode: Mode
    checked: PlannedLoad

    @property
    def plan(self) -> Plan:
        """Plan that it runs by."""
        return self.checked.plan


@dataclass(slots=True)
class Station:
    """A pair in memory, and the modes that can be measured with it."""

    checked: PlannedLoad
    candidates: list[ModeCandidate] = field(default_factory=list)
    passes: int = 0
    """Number of passes that are done."""

    @property
    def devices(self) -> set[str]:
        """Devices on which the pair lies."""
        return {memory.device for memory in self.checked.plan.memory}


def same_run(one: Plan, other: Plan) -> bool:
    """True where two plans run alike; only the room for the conversation may differ."""
    return _key(one) == _key(other)


def find_candidates(
    home: Load, modes: Sequence[Mode], check: Callable[[Load], PlannedLoad]
) -> tuple[list[ModeCandidate], list[ModeRun]]:
    """Return modes with plans of their own, and those that cannot run or would run as another does.

    Args:
        home: how the model is loaded; all of it but the mode stays.
        modes: those to try.
        check: plans a load.

    Raises:
        Cancelled: the user wants something else.
    """
    candidates: list[ModeCandidate] = []
    others: list[ModeRun] = []
    for mode in modes:
        try:
            checked = check(as_mode(home, mode))
        except UserFixable as error:
            others.append(ModeRun(mode, None, refusal=error.cause))
            continue
        alike = next((c for c in candidates if same_run(c.plan, checked.plan)), None)
        if alike is None:
            candidates.append(ModeCandidate(mode, checked))
        else:
            others.append(ModeRun(mode, checked.summary, same_as=alike.mode))
    return candidates, others


def as_mode(home: Load, mode: Mode) -> Load:
    """Return a load in another mode; a number of layers was wished for the present one only."""
    if mode is home.mode:
        return home
    return replace(home, mode=mode, layers_on_gpu=None)


def stations(candidates: Sequence[ModeCandidate], present: Plan) -> list[Station]:
    """The pairs that have to be in memory one after the other, what is there already first.

    The target alone is measured with any pair whose target lies as its own would.
    """
    alone = [each for each in candidates if each.plan.mode is Mode.PLAIN]
    made = [Station(each.checked, [each]) for each in candidates if each not in alone]
    for each in alone:
        shared = [one for one in made if one.checked.plan.target == each.plan.target]
        best = next((one for one in shared if same_run(one.checked.plan, present)), None)
        if best is None and shared and not same_run(each.plan, present):
            best = shared[0]
        if best is None:
            made.append(Station(each.checked, [each]))
        else:
            best.candidates.append(each)
    return sorted(made, key=lambda one: not same_run(one.checked.plan, present))


def _key(plan: Plan) -> tuple[object, ...]:
    draft = (plan.draft, plan.draft_device, plan.lookup)
    return (plan.mode, plan.target, draft, plan.threads)


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
        loop=_anew(pair.loop, candidate),
        plan=candidate.plan,
        summary=replace(candidate.checked.summary, signature=pair.target.signature),
    )


def _anew(loop: Loop, candidate: ModeCandidate) -> Loop:
    """Return the loop as if it had decoded nothing yet."""
    plan, command = candidate.plan, candidate.checked.inspection.command
    if plan.draft_device is None or not isinstance(loop, Serial | Parallel):
        return Plain()
    costs = loop.controller.costs.anew()
    return replace(loop, controller=controller_of(command, plan, costs))


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


def noisy(runs: Sequence[ModeRun]) -> bool:
    """Return whether the speeds lie too far apart to tell the fastest mode.

    Then the mode to use is not the one with the highest speed, as that was not the faster one in
    most of the answers.
    """
    speeds = {run.mode: run.tokens_per_s for run in runs if run.tokens_per_s is not None}
    best = winner(runs)
    return best is not None and max(speeds.values()) > _CLEARLY * speeds[best]


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
