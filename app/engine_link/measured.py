"""Speeds that answers and benchmarks really had, by what the model ran with; kept between runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.background import in_background
from app.engine_link.bridge import EngineBridge
from engine.commands import Mode
from engine.events import Compared, Finished, FinishReason, PlanSummary
from engine.language import tr, tr_count
from engine.machine.facts import CPU

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
FEWEST_TOKENS = 24
"""Fewest tokens of an answer that says something about speed."""
MOST_ALIKE = 6
"""Most measurements that are kept with the same settings."""
MOST = 300
_SAVE_AFTER_MS = 1000
_SIMULATED = "simulated:"


@dataclass(frozen=True, slots=True)
class Measured:
    """Speed of one answer, or of the answers of a benchmark.

    Attributes:
        model: the path of its file or folder.
        at: Unix time, in seconds.
        mode: the plan's mode, never AUTO.
        draft: its name in the plan; None where nothing could draft.
        vram: bytes that the plan held on the accelerator.
        committed: tokens it rests on; 0 of a benchmark, which does not tell.
        acceptance_length: None where nothing drafted was verified.
        drafting: whether anything was drafted: without, it is a baseline.
        simulated: whether a simulated accelerator took part.
    """

    model: str
    at: float
    mode: Mode
    draft: str | None
    layers_on_gpu: int
    vram: int
    tokens_per_s: float
    committed: int
    acceptance_length: float | None
    drafting: bool
    simulated: bool

    @property
    def setup(self) -> tuple[object, ...]:
        """Return the settings that it ran with."""
        where = (self.layers_on_gpu, self.vram, self.simulated)
        return (self.model, self.mode, self.draft, self.drafting, *where)


class MeasuredSpeeds(QObject):
    """All that are known, the oldest first; fed by the engine's events.

    Args:
        bridge: to the engine.
        read: gives what was kept; called when it is first wanted.
        keep: keeps all of them; called in other threads, the newest revision wins.
        now: tells the Unix time.
    """

    changed = Signal()

    def __init__(
        self,
        bridge: EngineBridge,
        read: Callable[[], Sequence[Measured]] = tuple,
        keep: Callable[[int, Sequence[Measured]], None] = lambda _revision, _all: None,
        now: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._read, self._keep, self._now = read, keep, now
        self._known: list[Measured] | None = None
        self._bridge, self._revision = bridge, 0
        self._timer = QTimer(self, singleShot=True, interval=_SAVE_AFTER_MS)
        self._timer.timeout.connect(self._save)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Compared, self._compared)

    @property
    def all(self) -> tuple[Measured, ...]:
        """Return all that are known, the oldest first."""
        return tuple(self._points)

    def of(self, model: Path) -> list[Measured]:
        """Return the measurements of a model, the oldest first."""
        return [point for point in self._points if point.model == str(model)]

    def add(self, *points: Measured) -> None:
        """Note some, and have them kept soon."""
        if points:
            self._known = bounded([*self._points, *points])
            self._revision += 1
            self._timer.start()
            self.changed.emit()

    def clear(self) -> None:
        """Forget all of them, and have none kept."""
        self._timer.stop()
        self._known = []
        self._revision += 1
        self._save()
        self.changed.emit()

    def flush(self) -> None:
        """Keep now what is not kept yet."""
        self._timer.stop()
        if self._revision:
            self._keep(self._revision, self.all)

    @property
    def _points(self) -> list[Measured]:
        if self._known is None:
            self._known = bounded(self._read())
        return self._known

    def _save(self) -> None:
        revision, everything = self._revision, self.all
        in_background(
            self, lambda: self._keep(revision, everything), lambda _: None, lambda _: None
        )

    def _finished(self, event: Finished) -> None:
        stats, speed = event.stats, event.stats.tokens_per_s
        told = event.reason is not FinishReason.ERROR and stats.committed >= FEWEST_TOKENS
        model, plan = self._bridge.status.model, self._bridge.status.plan
        if model is None or plan is None or not told or not speed:
            return
        drafting, length = stats.drafted > 0, stats.acceptance_length
        point = self._point(model, plan, speed, length, drafting=drafting)
        self.add(replace(point, committed=stats.committed))

    def _compared(self, event: Compared) -> None:
        for run in event.runs:
            if run.plan is not None and run.tokens_per_s:
                length = run.acceptance_length
                speed, drafting = run.tokens_per_s, length is not None
                self.add(self._point(event.model, run.plan, speed, length, drafting=drafting))

    def _point(
        self,
        model: Path,
        plan: PlanSummary,
        speed: float,
        acceptance_length: float | None,
        *,
        drafting: bool,
    ) -> Measured:
        held = [memory for memory in plan.memory if memory.device != CPU and memory.total]
        return Measured(
            model=str(model),
            at=self._now(),
            mode=plan.mode,
            draft=plan.draft,
            layers_on_gpu=plan.layers_on_gpu,
            vram=sum(memory.total for memory in held),
            tokens_per_s=speed,
            committed=0,
            acceptance_length=acceptance_length,
            drafting=drafting,
            simulated=any(memory.device.startswith(_SIMULATED) for memory in held),
        )


def bounded(points: Iterable[Measured]) -> list[Measured]:
    """The newest of each setup, and not too many in all; in the same order."""
    alike: Counter[tuple[object, ...]] = Counter()
    kept: list[Measured] = []
    for point in reversed(list(points)):
        alike[point.setup] += 1
        if alike[point.setup] <= MOST_ALIKE and len(kept) < MOST:
            kept.append(point)
    return kept[::-1]


def age_words(seconds: float) -> str:
    """Return how long ago that is, roughly."""
    if seconds < _MINUTE:
        return tr("just now")
    if seconds < _HOUR:
        return tr_count("{n} minute ago", "{n} minutes ago", int(seconds / _MINUTE))
    if seconds < _DAY:
        return tr_count("{n} hour ago", "{n} hours ago", int(seconds / _HOUR))
    return tr_count("{n} day ago", "{n} days ago", int(seconds / _DAY))
