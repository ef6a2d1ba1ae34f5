"""Modes that can run here, and those of them that would run alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.commands import Load, Mode
from engine.errors import UserFixable
from engine.events import ModeRun
from engine.loading.planned_load import PlannedLoad
from engine.plan.plan import Plan

MODES = (Mode.AUTO, Mode.DUO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN)
"""Each one that can be chosen; the automatic choice first, with which others may coincide."""


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
