"""Other loads, each really planned, that fit where one does not.

A load is changed in one way, then in two, then in three, until something fits. Nothing is read or
loaded for it: the planner is asked again about the same models.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from engine.commands import DraftChoice, KvType, Load, Mode, WeightFormat
from engine.errors import UserFixable
from engine.events import WayOut
from engine.language import later, listed, number, tr, tr_count
from engine.language.units import memory
from engine.plan.memory import SMALLEST_CONTEXT
from engine.plan.plan import Plan

MOST = 4
"""Loads that are offered."""
_TOGETHER = 3
"""Changes of one load at most."""
_COMFORTABLE, _SHORT = 4096, 1024
"""Tokens of a context that is little to give up for, and of one that is much."""
ROUND = tuple(sorted(step << power for power in range(14) for step in (256, 384)))
"""Contexts that are offered: 256, 384, 512, 768, 1024 and so on."""

PlanFor = Callable[[Load], Plan]
"""Plans a load; raises `UserFixable` where it does not fit or makes no sense."""


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """Facts of a load on which its alternatives depend.

    Attributes:
        layers: blocks of the target.
        longest: context that it handles.
        formats: in which its weights would be smaller than they are.
        device: the accelerator that would be used, as people call it; empty without one.
        smaller_kv: whether keys and values could be in 8 bits.
    """

    layers: int
    longest: int
    formats: Sequence[WeightFormat]
    device: str = ""
    smaller_kv: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """One thing that is given up.

    Attributes:
        kind: two of a kind are never combined.
        apply: to a load; None where it helps nothing.
        cost: how much is given up; the least comes first.
        words: description of it, for the middle of a text.
    """

    kind: str
    apply: Callable[[Load], Load | None]
    cost: Callable[[Plan], float]
    words: Callable[[Plan], str]


def alternatives(wish: Load, facts: LoadFacts, plan_for: PlanFor) -> tuple[WayOut, ...]:
    """Return loads that fit instead of one that does not, the nearest to the wish first.

    Args:
        wish: what does not fit.
        facts: of the models it would load.
        plan_for: plans other loads.
    """

    def planned(load: Load) -> Plan | None:
        try:
            return plan_for(load)
        except UserFixable:
            return None

    changes = [*_changes(wish, facts), _shorter(wish, facts, planned)]
    for count in range(1, _TOGETHER + 1):
        found = list(_that_fit(wish, combinations(changes, count), planned))
        if found:
            found.sort(key=lambda each: each[0])
            return tuple(way for _, way in found[:MOST])
    return ()


def _that_fit(
    wish: Load,
    several: Iterator[tuple[_Change, ...]],
    planned: Callable[[Load], Plan | None],
) -> Iterator[tuple[float, WayOut]]:
    """Yield every distinct plan that fits, with its cost."""
    seen: set[object] = set()
    for changes in several:
        if len({change.kind for change in changes}) < len(changes):
            continue
        load: Load | None = wish
        for change in changes:
            load = None if load is None else change.apply(load)
        plan = None if load is None else planned(load)
        if load is None or plan is None:
            continue
        same = load.weights, replace(plan, reasons=(), knee=None, expected=None)
        if same in seen:
            continue
        seen.add(same)
        words = listed(change.words(plan) for change in changes)
        cost = sum(change.cost(plan) for change in changes)
        yield cost, WayOut(words[:1].upper() + words[1:], load, plan.tokens_per_s)


def _changes(wish: Load, facts: LoadFacts) -> Iterator[_Change]:
    """Yield every change but the shorter context."""

    def placed(plan: Plan) -> str:
        return _placed(plan, facts)

    if wish.layers_on_gpu is not None:
        yield _Change("layers", lambda load: replace(load, layers_on_gpu=None), _costs(0), placed)
    if wish.vram is not None:
        yield _Change("vram", lambda load: replace(load, vram=None), _costs(0.5), _ceiling(facts))
    if wish.mode is not Mode.AUTO:
        words = _says(later("automatic mode"))
        yield _Change("mode", lambda load: replace(load, mode=Mode.AUTO), _costs(1), words)
    if wish.mode is not Mode.CPU and facts.device:
        yield _Change("mode", _on_cpu, _costs(1.5), _says(later("everything on the CPU")))
    if wish.draft is not DraftChoice.NONE and wish.mode is not Mode.PLAIN:
        words = _says(later("no draft"))
        yield _Change(
            "draft", lambda load: replace(load, draft=DraftChoice.NONE), _costs(1.2), words
        )
    if facts.smaller_kv and wish.kv is KvType.F16:
        words = _says(later("8-bit KV cache"))
        yield _Change("kv", lambda load: replace(load, kv=KvType.Q8), _costs(1.8), words)
    for fmt in facts.formats:
        yield _smaller(fmt)


def _smaller(fmt: WeightFormat) -> _Change:
    cost, text = _FORMATS[fmt]
    return _Change("format", lambda load: replace(load, weights=fmt), _costs(cost), _says(text))


_FORMATS = {
    WeightFormat.BF16: (2.0, later("16-bit weights")),
    WeightFormat.Q8: (2.0, later("8-bit weights")),
    WeightFormat.Q4: (4.0, later("4-bit weights")),
}


def _on_cpu(load: Load) -> Load:
    return replace(load, mode=Mode.CPU, vram=None, layers_on_gpu=None)


def _shorter(wish: Load, facts: LoadFacts, planned: Callable[[Load], Plan | None]) -> _Change:
    """Return the change to the longest round context that fits."""
    longest = wish.context or facts.longest
    lengths = [each for each in ROUND if SMALLEST_CONTEXT <= each < longest]

    def apply(load: Load) -> Load | None:
        def too_long(length: int) -> bool:
            return planned(replace(load, context=length)) is None

        count = bisect_left(lengths, 1, key=too_long)
        return replace(load, context=lengths[count - 1]) if count else None

    def cost(plan: Plan) -> float:
        if plan.context >= min(_COMFORTABLE, longest // 2):
            return 3
        return 5 if plan.context >= _SHORT else 8

    def words(plan: Plan) -> str:
        return tr_count("context of {n} token", "context of {n} tokens", plan.context)

    return _Change("context", apply, cost, words)


def _ceiling(facts: LoadFacts) -> Callable[[Plan], str]:
    def words(plan: Plan) -> str:
        there = plan.memory[1:]
        if not there:
            return _placed(plan, facts)
        return tr("up to {size} of {device}").format(
            size=memory(there[0].total), device=facts.device
        )

    return words


def _placed(plan: Plan, facts: LoadFacts) -> str:
    if not plan.layers_on_gpu:
        return tr("no layers on {device}").format(device=facts.device)
    return tr("{some} of {all} layers on {device}").format(
        some=number(plan.layers_on_gpu), all=number(facts.layers), device=facts.device
    )


def _says(text: str) -> Callable[[Plan], str]:
    return lambda _plan: tr(text)


def _costs(cost: float) -> Callable[[Plan], float]:
    return lambda _plan: cost
