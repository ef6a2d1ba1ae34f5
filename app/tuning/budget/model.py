"""Results of every budget of GPU memory on this machine, as it is now. No Qt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.widgets.memory_parts import Stack, stacked
from engine.commands import Mode
from engine.events import PlanSummary, Previewed
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import CPU, Accelerator, Host, Machine
from engine.machine.memory import DeviceMemory, device_reserve, host_reserve

GIB = 2**30
_LEAST_SPREAD, _USUAL_SPREAD, _GUESSED_SPREAD, _MOST_SPREAD = 0.05, 0.15, 0.35, 0.6
"""Relative errors of predictions: at best, measured speeds, assumed speeds, at worst."""
_FINEST = 512
"""Number of parts of a GPU's memory that can be told apart in a picture."""
_ROOM = GIB // 4
"""Bytes that say nothing where they stay free."""
_BEHIND = 1.15
"""Length of the axis, in sizes of the most that can be used."""
_NO_CURVE = Curve(Mode.AUTO, (), 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A speed that was really seen, with so many bytes of GPU memory in use.

    Attributes:
        when_words: when that was, in words and translated.
    """

    vram: int
    tokens_per_s: float
    mode: Mode
    when_words: str


@dataclass(frozen=True, slots=True)
class BudgetModel:
    """Budgets, what they are used for, and what is in the way of larger ones.

    Attributes:
        curves: one per mode, that of the wished mode first.
        card: the accelerator that the curves are about; None without one.
        present: how the model in memory runs; None where there is none.
        spread: relative error to be expected of predicted speeds.
        others: bytes that other programs hold on the card now.
    """

    host: Host
    curves: tuple[Curve, ...] = ()
    card: Accelerator | None = None
    present: PlanSummary | None = None
    measured: tuple[MeasuredPoint, ...] = ()
    spread: float = _USUAL_SPREAD
    others: int = 0

    @classmethod
    def of(
        cls,
        told: Previewed,
        present: PlanSummary | None = None,
        measured: Iterable[MeasuredPoint] = (),
        others: int | None = None,
    ) -> BudgetModel:
        """Return the model of a preview; `others` from the newest sample of the GPU, if any."""
        card, seen = _card_of(told.machine, told.curves), tuple(measured)
        if others is None:
            others = (card.memory_of_others if card is not None else None) or 0
        calibrated = told.plan is None or told.plan.measured
        spread = spread_of(told.curves, seen, calibrated=calibrated)
        return cls(told.machine.host, told.curves, card, present, seen, spread, others)

    def with_others(self, others: int) -> BudgetModel:
        """Return the model after other programs took or gave back memory, as far as it matters."""
        if abs(others - self.others) * _FINEST < self.total:
            return self
        return replace(self, others=others)

    def led_by(self, mode: Mode) -> BudgetModel:
        """Return the same with another mode wished for, as far as it is possible at all."""
        if self.main.mode is mode or all(curve.mode is not mode for curve in self.curves):
            return self
        return replace(self, curves=tuple(sorted(self.curves, key=lambda each: each.mode != mode)))

    # -- the card --------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Bytes of the card; 0 without one."""
        return (self.card.memory_total or 0) if self.card is not None else 0

    @property
    def reserve(self) -> int:
        """Bytes of the card that are left alone."""
        return device_reserve(self.card) if self.card is not None else 0

    @property
    def limit(self) -> int:
        """Return the start of the forbidden zone, which other programs and the reserve take."""
        return max(self.total - self.others - self.reserve, 0)

    # -- the curve -------------------------------------------------------------------------

    @property
    def main(self) -> Curve:
        """Return the curve of the wished mode."""
        return self.curves[0] if self.curves else _NO_CURVE

    @property
    def points(self) -> tuple[CurvePoint, ...]:
        """The steps of the main curve; between them nothing changes."""
        return self.main.points

    @property
    def rival(self) -> Curve | None:
        """Return the fastest curve that would use memory, where the wished mode uses none."""
        if any(point.vram for point in self.points) or not self.points:
            return None
        using = [curve for curve in self.curves[1:] if curve.points and curve.points[-1].vram]
        return max(using, key=lambda curve: curve.at_best.tokens_per_s, default=None)

    @property
    def steps(self) -> tuple[int, ...]:
        """The budgets that can be chosen: where something changes, for the rival if for nobody."""
        source = self.points if (rival := self.rival) is None else rival.points
        found = {point.vram for point in source} | ({0} if rival is not None else set())
        return tuple(sorted(found))

    @property
    def extent(self) -> int:
        """Return where the axis ends: with the GPU, or where nothing more can be used."""
        most = max((curve.points[-1].vram for curve in self.curves if curve.points), default=0)
        others = [point.vram for curve in self.curves for point in curve.points]
        widest = max((b - a for a, b in pairwise(sorted({0, *others}))), default=0)
        if not most or self.limit - most <= max(widest, _ROOM):
            return self.total
        return min(round(most * _BEHIND), self.total)

    @property
    def last(self) -> int:
        """The step that End leads to: the last one before the forbidden zone, the first at least.

        -1 where there are no steps.
        """
        fitting = bisect_right(self.steps, self.limit)
        return min(max(fitting - 1, 0), len(self.steps) - 1)

    @property
    def knee(self) -> int:
        """The budget of Auto: the smallest one with about the best speed that fits now."""
        return min(self.main.knee, self.steps[self.last]) if self.points else 0

    def index(self, budget: int | None) -> int:
        """The step that a budget, or Auto, comes to; the first at least, -1 without steps."""
        wanted = self.knee if budget is None else budget
        place = bisect_right(self.steps, wanted)
        return min(max(place - 1, 0), len(self.steps) - 1)

    def at(self, budget: int | None) -> CurvePoint | None:
        """Return the use of a budget, or of Auto; None where nothing fits."""
        if not self.points:
            return None
        wanted = self.knee if budget is None else budget
        place = bisect_right(self.points, wanted, key=lambda point: point.vram)
        return self.points[max(place - 1, 0)]

    def fits(self, budget: int | None) -> bool:
        """Return whether what the budget is used for is outside of the forbidden zone."""
        point = self.at(budget)
        return point is not None and point.vram <= self.limit

    def range_of(self, point: CurvePoint) -> tuple[float, float]:
        """Return the speeds between which the truth should be."""
        speed = point.tokens_per_s
        return speed * (1 - self.spread), speed * (1 + self.spread)

    # -- moving along it -------------------------------------------------------------------

    def nearest(self, vram: float) -> int:
        """The step nearest to so many bytes that fits; -1 without steps."""
        if not self.steps:
            return -1
        above = bisect_right(self.steps, vram)
        around = [min(max(place, 0), self.last) for place in (above - 1, above)]
        return min(around, key=lambda place: abs(self.steps[place] - vram))

    def stepped(self, index: int, by: int) -> int:
        """Return the index so many steps further, as far as fits; a step is mostly one layer."""
        return max(min(index + by, self.last), min(0, self.last))

    def paged(self, index: int, by: int) -> int:
        """Return the index so many GiB further, at least one step."""
        if not self.points:
            return -1
        found = self.nearest(self.steps[index] + by * GIB)
        one = self.stepped(index, 1 if by > 0 else -1)
        return max(found, one) if by > 0 else min(found, one)

    # -- memory ----------------------------------------------------------------------------

    def card_now(self) -> Stack | None:
        """The card's memory as it is; None where no model is loaded."""
        return None if self.present is None else self._card(_elsewhere(self.present.memory))

    def card_then(self, budget: int | None) -> Stack:
        """The card's memory with a budget; as it is where nothing is known."""
        point = self.at(budget)
        if point is None:
            return self.card_now() or self._card(None)
        return self._card(_elsewhere(point.memory))

    def host_now(self) -> Stack | None:
        """The PC's memory as it is; None where no model is loaded."""
        return None if self.present is None else self._host(self.present.memory)

    def host_then(self, budget: int | None) -> Stack:
        """The PC's memory with a budget; as it is where nothing is known."""
        point = self.at(budget)
        if point is None:
            return self.host_now() or self._host(())
        return self._host(point.memory)

    def _card(self, held: DeviceMemory | None) -> Stack:
        return stacked(held, self.total, self.others, self.reserve)

    def _host(self, memory: Sequence[DeviceMemory]) -> Stack:
        host, card = self.host, self.card
        held = next((each for each in memory if each.device == CPU), None)
        if card is not None and (card.unified or card.simulated):  # its memory is the PC's
            held = _together(held, _elsewhere(memory))
        others = max(host.memory_total - host.memory_available, 0)
        return stacked(held, host.memory_total, others, host_reserve(host))


def spread_of(
    curves: Sequence[Curve], measured: Sequence[MeasuredPoint], *, calibrated: bool = True
) -> float:
    """Return how far predictions were from measurements; the usual where nothing was measured."""
    errors = []
    for seen in measured:
        curve = next((each for each in curves if each.mode is seen.mode and each.points), None)
        point = curve.at(seen.vram) if curve is not None else None
        if point is not None and point.tokens_per_s > 0:
            errors.append(abs(seen.tokens_per_s / point.tokens_per_s - 1))
    if not errors:
        return _USUAL_SPREAD if calibrated else _GUESSED_SPREAD
    return min(max(*errors, _LEAST_SPREAD), _MOST_SPREAD)


def _card_of(machine: Machine, curves: Sequence[Curve]) -> Accelerator | None:
    """The accelerator that the steps are about; the first one where none of them uses any."""
    used = {
        held.device
        for curve in curves
        for point in curve.points
        for held in point.memory
        if held.device != CPU
    }
    usable = machine.usable
    return next((each for each in usable if each.device in used), next(iter(usable), None))


def _elsewhere(memory: Sequence[DeviceMemory]) -> DeviceMemory | None:
    return next((held for held in memory if held.device != CPU), None)


def _together(one: DeviceMemory | None, other: DeviceMemory | None) -> DeviceMemory | None:
    if one is None or other is None:
        return one or other
    return replace(
        one,
        target=one.target + other.target,
        draft=one.draft + other.draft,
        kv=one.kv + other.kv,
        features=one.features + other.features,
        workspace=one.workspace + other.workspace,
        runtime=one.runtime + other.runtime,
    )
