"""Other programs take the graphics card: when that is worth a word, once per event. No widgets.

A card that is only a little fuller than before is none of it, nor is one that is full for a moment:
games and browsers take and give back all the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from PySide6.QtCore import QObject, Signal

from app.engine_link.asker import Asker
from app.engine_link.running import Running
from app.engine_link.status import EngineStatus
from app.signals import TypedSignal
from engine.commands import Load, Preview
from engine.events import (
    AcceleratorSample,
    DeviceSample,
    PlanSummary,
    Previewed,
)
from engine.machine.facts import CPU, Accelerator
from engine.machine.memory import DeviceMemory, Holder, device_reserve

PATIENCE_S = 2.0
"""Seconds that the GPU has to be too full before anything is said."""
CALM_S = 5.0
"""Seconds that there has to be room again before the event is over."""
_MIB = 2**20
_STEP = 64 * _MIB
_GROWTH, _GROWTH_SHARE = 128 * _MIB, 1 / 64
"""Growth of others' memory since the load that makes them the cause."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A way out where other programs take GPU memory, or back once they do not.

    Attributes:
        load: None where nothing smaller can be had.
        plan: the plan of that load.
        device: the card, as people call it.
        taken: bytes that other programs hold on it.
        holders: who they are, as far as the driver tells.
        back: there is room again, and this is how it ran before.
    """

    load: Load | None
    plan: PlanSummary | None
    device: str
    taken: int
    holders: tuple[Holder, ...] = ()
    back: bool = False


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """A card at one moment, in bytes; `ours`: what the plan in force holds there."""

    at: float
    total: int
    others: int
    ours: int
    reserve: int
    holders: tuple[Holder, ...] = ()

    @classmethod
    def of(cls, at: float, sample: AcceleratorSample, ours: int, reserve: int) -> GpuMemory | None:
        """None where the driver does not tell enough.

        `memory_used` counts all programs, `memory_ours` is of that.
        """
        used, total = sample.memory_used, sample.memory_total
        if used is None or total is None:
            return None
        known = ours if sample.memory_ours is None else sample.memory_ours
        return cls(at, total, max(used - known, 0), ours, reserve, sample.holders)

    @property
    def most(self) -> int:
        """Return the most that a plan may take now."""
        return max(self.total - self.others - self.reserve, 0)

    @property
    def too_full(self) -> bool:
        """True if what is planned, and half of the reserve, no longer fit beside the others."""
        return self.others + self.ours + self.reserve // 2 > self.total

    def grown(self, others: int) -> bool:
        """Return whether the others hold clearly more than they did."""
        return self.others - others >= max(_GROWTH, self.total * _GROWTH_SHARE)


class _Phase(Enum):
    CALM = auto()
    ASKING = auto()
    """A smaller plan is being made."""
    TOLD = auto()
    """The notice was shown, and no more is said until this event is over."""
    LESS = auto()
    """The model runs with less; there may be room for more again."""
    ASKING_BACK = auto()
    TOLD_BACK = auto()


class Pressure(QObject):
    """Compares what the plan in force holds on the card with what others leave there."""

    offered = TypedSignal[Offer]()
    over = Signal()
    """The last offer is of no use any more."""

    def __init__(self, running: Running, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._running, self._bridge = running, running.bridge
        self._phase = _Phase.CALM
        self._device = ""
        """The card of the plan in force, or the last one that had one."""
        self._others: int | None = None
        """Bytes that other programs held when the model had come."""
        self._since: float | None = None
        """Since when it is as it would have to be for the next step."""
        self._asker = Asker(self._bridge, self)
        self._room: GpuMemory | None = None
        self._before: tuple[Load, int] | None = None
        """The load before it was given less, and the memory that it took."""
        self._less: Load | None = None
        self._bridge.plan_changed.connect(self._plan_changed)
        self._bridge.subscribe_newest(DeviceSample, self._look)

    def take(self, offer: Offer) -> None:
        """Run as it was offered, from the next answer on."""
        loaded = self._bridge.status.loaded
        if offer.load is None or loaded is None:
            return
        self._before = None if offer.back else (loaded, self._planned)
        self._less = replace(offer.load, after_answer=True)
        self._running.for_now(offer.load)

    def leave(self, offer: Offer) -> None:
        """Leave it as it is."""
        if offer.back:
            self._before, self._phase = None, _Phase.CALM

    @property
    def _planned(self) -> int:
        """Bytes of the card that the plan in force holds."""
        return sum(each.total for each in _on_card(self._bridge.status.plan))

    def _plan_changed(self, before: EngineStatus) -> None:
        now = self._bridge.status
        there, last = _on_card(now.plan), sum(each.total for each in _on_card(before.plan))
        if now.loaded == before.loaded and last == self._planned:
            return  # it was only told again
        less = self._before is not None and now.loaded == self._less
        smaller = self._before
        self._forget()
        self._device = there[0].device if there else self._device
        if less:
            self._before, self._phase = smaller, _Phase.LESS

    def _forget(self) -> None:
        if self._phase in (_Phase.TOLD, _Phase.TOLD_BACK):
            self.over.emit()
        self._phase, self._before = _Phase.CALM, None
        self._others, self._since = None, None
        self._asker.forget()

    def _look(self, event: DeviceSample) -> None:
        """Twice a second."""
        room = self._room = self._room_now(event)
        if room is None:
            return
        if self._others is None:
            self._others = room.others
        match self._phase:
            case _Phase.CALM:
                if self._lasts(room, PATIENCE_S, self._is_squeezed(room)):
                    self._ask(_Phase.ASKING, self._smaller(room))
            case _Phase.ASKING if not self._is_squeezed(room):
                self._back_to(_Phase.CALM)
            case _Phase.TOLD if self._lasts(room, CALM_S, not self._is_squeezed(room)):
                self._back_to(_Phase.CALM)
                self.over.emit()
            case _Phase.LESS if self._before is not None:
                load, needed = self._before
                if self._lasts(room, CALM_S, needed <= room.most):
                    self._ask(_Phase.ASKING_BACK, load)
            case _Phase.ASKING_BACK if not self._fits_back(room):
                self._back_to(_Phase.LESS)
            case _Phase.TOLD_BACK if not self._fits_back(room):
                self._back_to(_Phase.LESS)
                self.over.emit()
            case _:
                pass

    def _previewed(self, event: Previewed) -> None:
        if self._room is None:
            return
        load, plan = (event.load, event.plan) if event.plan is not None else (None, None)
        if load is None and event.refusal is not None and event.refusal.ways_out:
            load = event.refusal.ways_out[0].load
        back = self._phase is _Phase.ASKING_BACK
        if back and plan is None:
            self._back_to(_Phase.LESS)
            return
        self._phase, self._since = (_Phase.TOLD_BACK if back else _Phase.TOLD), None
        card = self._card
        name, room = card.name if card is not None else "", self._room
        self.offered.emit(Offer(load, plan, name, room.others, room.holders, back))

    def _back_to(self, phase: _Phase) -> None:
        self._phase, self._since = phase, None
        self._asker.forget()

    def _ask(self, phase: _Phase, load: Load | None) -> None:
        self._phase, self._since = phase, None
        if load is not None:
            self._asker.ask(Preview(load), self._previewed)

    def _smaller(self, room: GpuMemory) -> Load | None:
        """Return the load with what is left of the GPU as its budget."""
        loaded = self._bridge.status.loaded
        if loaded is None:
            return None
        return replace(loaded, vram=room.most // _STEP * _STEP, layers_on_gpu=None)

    def _is_squeezed(self, room: GpuMemory) -> bool:
        return room.too_full and room.grown(self._others or 0)

    def _fits_back(self, room: GpuMemory) -> bool:
        return self._before is not None and self._before[1] <= room.most

    def _lasts(self, room: GpuMemory, seconds: float, holds: bool) -> bool:
        """Return whether something has held for so long."""
        if not holds:
            self._since = None
            return False
        if self._since is None:
            self._since = room.at
        return room.at - self._since >= seconds

    @property
    def _card(self) -> Accelerator | None:
        machine = self._bridge.status.machine
        found = machine.accelerators if machine is not None else ()
        return next((each for each in found if each.device == self._device), None)

    def _room_now(self, event: DeviceSample) -> GpuMemory | None:
        card = self._card
        if (
            self._bridge.status.loaded is None
            or card is None
            or not (self._planned or self._before)
        ):
            return None
        found = next((each for each in event.accelerators if each.device == card.device), None)
        if found is None:
            return None
        return GpuMemory.of(event.at, found, self._planned, device_reserve(card))


def _on_card(plan: PlanSummary | None) -> list[DeviceMemory]:
    """Return what a plan holds outside of the PC's own memory."""
    return [] if plan is None else [each for each in plan.memory if each.device != CPU]
