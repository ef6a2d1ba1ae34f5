"""All that the performance panel knows, fed by events. No Qt, no clock of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Flag, auto

from app.performance.series import Scale, Series
from app.performance.tally import AnswerTally
from app.performance.timeline import Timeline
from app.performance.wording import GIB, memory, percent, rate
from engine.events import DeviceSample, Event, Finished, PrefillProgress, RoundFinished

WINDOW_S = 60.0
"""How far back the lanes show."""
_DEVICE_GAP_S = 3.0


class Part(Flag):
    """What an event changed."""

    NOTHING = 0
    ANSWER = auto()
    """Numbers, timeline, acceptance by position."""
    TIME = auto()
    """The lanes: they got data, or the present moved on."""


@dataclass(slots=True)
class LaneModel:
    """One graph: one or two series on a common scale. `value` is its newest number in words."""

    title: str
    unit: str
    series: list[Series]
    scale: Scale
    names: tuple[str, ...] = ()
    """What the lines are, where there is more than one."""
    value: str = "–"
    present: bool = True
    """Whether this machine measures it at all."""

    def ceiling(self, now: float) -> float:
        """The end of the vertical axis for the window that ends `now`."""
        return self.scale.fit(max(s.peak(now - WINDOW_S) for s in self.series))

    def clear(self) -> None:
        """Forget the measurements; what this machine can measure stays known."""
        for series in self.series:
            series.clear()
        self.value = "–"

    def describe(self, now: float) -> str:
        """The graph in words."""
        if all(series.last is None for series in self.series):
            return f"{self.title}: nothing measured."
        peak = max(series.peak(now - WINDOW_S) for series in self.series)
        return f"{self.title}: {self.value}; highest in the last minute {peak:.1f} {self.unit}."


def _devices(series: int = 1) -> list[Series]:
    return [Series(capacity=512, max_gap=_DEVICE_GAP_S) for _ in range(series)]


def _percent_scale() -> Scale:
    return Scale(ceiling=100.0, fixed=True)


@dataclass(slots=True)
class PerformanceModel:
    """Turns events into series, tallies and a timeline.

    `now` is the newest moment any event told of: graphs end there, so a quiet engine draws a
    quiet graph.
    """

    now: float = -math.inf
    tally: AnswerTally | None = None
    timeline: Timeline = field(default_factory=Timeline)
    speed: LaneModel = field(
        default_factory=lambda: LaneModel("Tokens per second", "tokens/s", [Series()], Scale(10.0))
    )
    acceptance: LaneModel = field(
        default_factory=lambda: LaneModel("Acceptance length", "tokens", [Series()], Scale(4.0))
    )
    cpu: LaneModel = field(
        default_factory=lambda: LaneModel(
            "CPU", "percent", _devices(2), _percent_scale(), ("Duotail", "whole system")
        )
    )
    memory: LaneModel = field(
        default_factory=lambda: LaneModel("Memory", "GiB", _devices(), Scale(1.0, smallest=0.1))
    )
    gpu: LaneModel = field(
        default_factory=lambda: LaneModel(
            "GPU", "percent", _devices(), _percent_scale(), present=False
        )
    )
    gpu_memory: LaneModel = field(
        default_factory=lambda: LaneModel(
            "GPU memory", "GiB", _devices(), Scale(1.0, smallest=0.1), present=False
        )
    )
    _asked_at: float | None = None

    @property
    def lanes(self) -> list[LaneModel]:
        """Every lane, in the order shown."""
        return [self.speed, self.acceptance, self.cpu, self.memory, self.gpu, self.gpu_memory]

    def clear(self) -> None:
        """Forget everything measured so far."""
        self.now, self.tally, self.timeline = -math.inf, None, Timeline()
        self._asked_at = None
        for lane in self.lanes:
            lane.clear()

    def asked(self, at: float) -> None:
        """The user pressed send; the next answer's time to first token runs from here."""
        self._asked_at = at

    def handle(self, event: Event) -> Part:
        """Take an event in; says what it changed."""
        match event:
            case RoundFinished():
                self._round(event)
            case DeviceSample():
                self._sample(event)
            case PrefillProgress():
                if not self._begin(event.request_id):
                    return Part.NOTHING
            case Finished():
                self._finish(event)
            case _:
                return Part.NOTHING
        self.now = max(self.now, event.at)
        return Part.TIME if isinstance(event, DeviceSample) else Part.TIME | Part.ANSWER

    def _begin(self, request_id: str) -> bool:
        """Start a new answer's account, unless this one is under way already."""
        if self.tally is not None and self.tally.request_id == request_id:
            return False
        self.tally = AnswerTally(request_id, self._asked_at)
        self.timeline = Timeline()
        self._asked_at = None
        for lane in (self.speed, self.acceptance):
            lane.series[0].interrupt()
            lane.value = "–"
        return True

    def _round(self, done: RoundFinished) -> None:
        self._begin(done.request_id)
        assert self.tally is not None  # noqa: S101 - _begin has just made it
        self.tally.add(done)
        self.timeline.add(done)
        if self.tally.now is not None:
            self.speed.series[0].append(done.at, self.tally.now)
            self.speed.value = rate(self.tally.now)
        recent = self.tally.recent_acceptance_length
        if done.drafted and recent is not None:
            self.acceptance.series[0].append(done.at, recent)
            self.acceptance.value = rate(recent)

    def _finish(self, event: Finished) -> None:
        self._begin(event.request_id)
        assert self.tally is not None  # noqa: S101 - _begin has just made it
        self.tally.finish(event.stats)
        for lane in (self.speed, self.acceptance):
            lane.series[0].interrupt()
            lane.value = "–"

    def _sample(self, sample: DeviceSample) -> None:
        for lane, values in (
            (self.cpu, (sample.cpu_percent, sample.system_cpu_percent)),
            (self.memory, (_gib(sample.memory_bytes),)),
            (self.gpu, (sample.gpu_percent,)),
            (self.gpu_memory, (_gib(sample.gpu_memory_bytes),)),
        ):
            for series, value in zip(lane.series, values, strict=True):
                series.append(sample.at, value)
            lane.present = lane.present or any(value is not None for value in values)
        self.cpu.value = _cpu_words(sample)
        self.memory.value = memory(sample.memory_bytes, sample.memory_total_bytes)
        self.gpu.value = percent(_share(sample.gpu_percent))
        self.gpu_memory.value = memory(sample.gpu_memory_bytes, sample.gpu_memory_total_bytes)


def _gib(count: int | None) -> float | None:
    return None if count is None else count / GIB


def _share(percentage: float | None) -> float | None:
    return None if percentage is None else percentage / 100


def _cpu_words(sample: DeviceSample) -> str:
    return percent(_share(sample.cpu_percent))
