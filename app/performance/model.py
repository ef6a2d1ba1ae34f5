"""All that the performance panel knows, fed by events. No Qt, no clock of its own."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntFlag
from time import perf_counter

from app.performance.series import Scale, Series
from app.performance.tally import AnswerTally
from app.performance.timeline import Timeline
from app.performance.verdict import SpeedVerdict
from app.performance.wording import ABSENT, GIB, length, memory, percent, rate
from app.performance.written import KindsByModel, WrittenAnswer
from engine.events import (
    Connected,
    DeviceSample,
    Event,
    Finished,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    Received,
    RoundFinished,
    TextDelta,
)
from engine.language import later, number, tr

_DEVICE_GAP_S = 3.0
_SPACING_S = 0.1
"""Graphs are at most so fine: thousands of rounds a second fit no screen."""
_OF_INTEREST = (
    PlanReady,
    Connected,
    TextDelta,
    RoundFinished,
    Received,
    DeviceSample,
    PrefillProgress,
    Finished,
)
_UNSEEN = (TextDelta, PlanReady, Connected)
"""Events that show nothing before another one comes."""
_MOST_WAITING = 50_000
_LOOK_AT_CLOCK = 64


class ModelChange(IntFlag):
    """Parts of the panel that an event changed."""

    NOTHING = 0
    ANSWER = 1
    """Numbers, timeline, acceptance by position."""
    TIME = 2
    """The lanes: they got data, or the present moved on."""


@dataclass(slots=True)
class GraphModel:
    """One graph: one or two series on a common scale. `value` is its newest number in words."""

    title: str
    """To be translated when shown, like `unit` and `names`."""
    unit: str
    series: list[Series]
    scale: Scale
    names: tuple[str, ...] = ()
    """Names of the lines, where there are several."""
    value: str = ABSENT
    present: bool = True
    """True if this machine measures it at all."""

    def ceiling(self, start: float, end: float = math.inf) -> float:
        """The end of the vertical axis for a stretch of time."""
        return self.scale.fit(max(series.peak(start, end) for series in self.series))

    def clear(self) -> None:
        """Forget the measurements; what this machine can measure stays known."""
        for series in self.series:
            series.clear()
        self.value = ABSENT

    def describe(self, start: float, end: float) -> str:
        """The graph in words."""
        if all(series.last is None for series in self.series):
            return tr("{graph}: nothing measured.").format(graph=tr(self.title))
        peak = max(series.peak(start, end) for series in self.series)
        return tr("{graph}: {value}; highest in view {peak} {unit}.").format(
            graph=tr(self.title), value=self.value, peak=number(peak, ".1f"), unit=tr(self.unit)
        )


def _devices(series: int = 1) -> list[Series]:
    return [Series(capacity=4096, max_gap=_DEVICE_GAP_S) for _ in range(series)]


def _rounds() -> list[Series]:
    return [Series(capacity=32_768, spacing=_SPACING_S)]


_GPU_TITLES = (
    (later("GPU"), later("Simulated GPU")),
    (later("GPU memory"), later("Simulated GPU memory")),
)
USUAL = 6
"""Graphs that are shown everywhere; the others only where there is room."""


def _lanes() -> list[GraphModel]:
    """Every graph, in the order shown."""
    tokens, unit = later("tokens"), later("percent")
    whole = (later("Duotail"), later("whole system"))
    return [
        GraphModel(later("Tokens per second"), later("tokens/s"), _rounds(), Scale(10.0)),
        GraphModel(later("Acceptance length"), tokens, _rounds(), Scale(4.0)),
        GraphModel(later("CPU"), unit, _devices(2), Scale(100.0, fixed=True), whole),
        GraphModel(later("Memory"), later("GiB"), _devices(), Scale(1.0, smallest=0.1)),
        GraphModel(_GPU_TITLES[0][0], unit, _devices(), Scale(100.0, fixed=True), present=False),
        GraphModel(_GPU_TITLES[1][0], "GiB", _devices(), Scale(1.0, smallest=0.1), present=False),
        GraphModel(later("GPU temperature"), "°C", _devices(), Scale(100.0), present=False),
        GraphModel(later("GPU power"), "W", _devices(), Scale(100.0), present=False),
    ]


@dataclass(slots=True)
class PerformanceModel:
    """Turns events into series, tallies and a timeline.

    `now` is the newest moment any event told of: graphs end there, so a quiet engine draws a
    quiet graph.
    """

    now: float = -math.inf
    tally: AnswerTally | None = None
    timeline: Timeline = field(default_factory=Timeline)
    written: WrittenAnswer = field(default_factory=WrittenAnswer)
    verdicts: dict[str, SpeedVerdict] = field(default_factory=dict)
    """The verdicts on the answers' speed, by request."""
    kinds: KindsByModel = field(default_factory=KindsByModel)
    lanes: list[GraphModel] = field(default_factory=_lanes)
    plan: PlanSummary | None = None
    """Plan of the model that wrote the answer."""
    sample: DeviceSample | None = None
    """The newest look at the machine."""
    answer_began: float | None = None
    """Moment when the question was asked, or the first event of its answer came."""
    answer_ended: float | None = None
    """Moment of the answer's end; None while it is written."""
    _waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    _heard: list[TextDelta] = field(default_factory=list)
    _asked_at: float | None = None
    _loaded: PlanSummary | None = None

    @property
    def speed(self) -> GraphModel:
        """Tokens per second."""
        return self.lanes[0]

    @property
    def processor(self) -> GraphModel:
        """Return the graph of the CPU use of Duotail and of all programs together."""
        return self.lanes[2]

    @property
    def acceptance(self) -> GraphModel:
        """Acceptance length."""
        return self.lanes[1]

    def clear(self) -> None:
        """Forget everything measured so far."""
        self.now, self.tally, self.timeline = -math.inf, None, Timeline()
        self.written = WrittenAnswer()
        self._asked_at = self.answer_began = self.answer_ended = None
        self._waiting.clear()
        self._heard.clear()
        for lane in self.lanes:
            lane.clear()

    def asked(self, at: float) -> None:
        """The user pressed send; the next answer's time to first token runs from here."""
        self._asked_at = at

    def feed(self, events: Iterable[Event]) -> bool:
        """Note events for `advance`; whether any of them is of interest.

        Costs next to nothing. Of very many the oldest are lost.
        """
        wanted = [event for event in events if isinstance(event, _OF_INTEREST)]
        self._waiting.extend(wanted)
        return any(not isinstance(event, _UNSEEN) for event in wanted)

    def advance(self, seconds: float = math.inf) -> ModelChange:
        """Take in what was fed, for about so long; says what it changed."""
        until = perf_counter() + seconds
        changed, count = ModelChange.NOTHING, 0
        while self._waiting:
            changed |= self.handle(self._waiting.popleft())
            count += 1
            if count % _LOOK_AT_CLOCK == 0 and perf_counter() > until:
                break
        return changed

    @property
    def behind(self) -> bool:
        """True if there is more to take in."""
        return bool(self._waiting)

    def handle(self, event: Event) -> ModelChange:
        """Take an event in; says what it changed."""
        match event:
            case RoundFinished():
                self._round(event)
            case Received():
                self._receive(event)
            case DeviceSample():
                self._sample(event)
            case PrefillProgress():
                if not self._begin(event.request_id, event.at):
                    return ModelChange.NOTHING
            case Finished():
                self._finish(event)
            case TextDelta():
                self._heard.append(event)  # the round that wrote it is told next
                return ModelChange.NOTHING
            case PlanReady():
                self._loaded, self.kinds.model = event.plan, event.model_name
                return ModelChange.NOTHING
            case Connected():
                self._loaded, self.kinds.model = event.plan, event.place.label
                return ModelChange.NOTHING
            case _:
                return ModelChange.NOTHING
        self.now = max(self.now, event.at)
        return (
            ModelChange.TIME
            if isinstance(event, DeviceSample)
            else ModelChange.TIME | ModelChange.ANSWER
        )

    def _begin(self, request_id: str, at: float) -> bool:
        """Start a new answer's account, unless this one is under way already."""
        if self.tally is not None and self.tally.request_id == request_id:
            return False
        host = "" if self._loaded is None else self._loaded.host
        self.tally = AnswerTally(request_id, self._asked_at, host)
        self.timeline = Timeline(request_id)
        self.plan, self.written = self._loaded, WrittenAnswer()
        self.answer_began = at if self._asked_at is None else self._asked_at
        self._asked_at = self.answer_ended = None
        for lane in (self.speed, self.acceptance):
            lane.series[0].interrupt()
            lane.value = ABSENT
        return True

    def _round(self, done: RoundFinished) -> None:
        self._begin(done.request_id, done.verify.start)
        tally = self.tally
        assert tally is not None  # noqa: S101 - _begin has just made it
        tally.add(done)
        self.timeline.add(done)
        self._hear()
        self.written.add(done)
        if tally.now is not None:
            self.speed.series[0].append(done.at, tally.now)
            self.speed.value = rate(tally.now)
        if done.drafted:
            recent = tally.recent_acceptance_length
            self.acceptance.series[0].append(done.at, recent)
            self.acceptance.value = length(recent)

    def _receive(self, event: Received) -> None:
        """Take in how much has come from a server, and how well it drafts if it tells."""
        self._begin(event.request_id, event.at)
        assert self.tally is not None  # noqa: S101 - _begin has just made it
        self.tally.receive(event)
        if self.tally.now is not None:
            self.speed.series[0].append(event.at, self.tally.now)
            self.speed.value = rate(self.tally.now)
        if event.acceptance_length is not None:
            self.acceptance.series[0].append(event.at, event.acceptance_length)
            self.acceptance.value = length(event.acceptance_length)

    def _hear(self) -> None:
        assert self.tally is not None  # noqa: S101 - only while there is an answer
        for delta in self._heard:
            if delta.request_id == self.tally.request_id:
                self.written.hear(delta)
        self._heard.clear()

    def _finish(self, event: Finished) -> None:
        self._begin(event.request_id, event.at)
        assert self.tally is not None  # noqa: S101 - _begin has just made it
        self.tally.finish(event.stats)
        if event.stats.host and event.stats.acceptance_length is not None:
            self.acceptance.series[0].append(event.at, event.stats.acceptance_length)
        self.answer_ended = event.at
        self._hear()
        self.written.tokens.finish()
        self.kinds.add(self.written.kinds.counts)
        for lane in (self.speed, self.acceptance):
            lane.series[0].interrupt()
            lane.value = ABSENT

    def _sample(self, sample: DeviceSample) -> None:
        self.sample = sample
        used, total = sample.memory_bytes, sample.memory_total_bytes
        gpu = sample.accelerator
        gpu_percent = gpu.percent if gpu else None
        gpu_used, gpu_total = (gpu.memory_used, gpu.memory_total) if gpu else (None, None)
        warmth, power = (gpu.temperature, gpu.power) if gpu else (None, None)
        if gpu is not None:
            for lane, titles in zip(self.lanes[4:USUAL], _GPU_TITLES, strict=True):
                lane.title = titles[gpu.simulated]
        cpu = (sample.cpu_percent, sample.system_cpu_percent)
        readings: tuple[tuple[tuple[float | None, ...], str], ...] = (
            (cpu, _percent(sample.cpu_percent)),
            ((_gib(used),), memory(used, total)),
            ((gpu_percent,), _percent(gpu_percent)),
            ((_gib(gpu_used),), memory(gpu_used, gpu_total)),
            ((warmth,), _measured(warmth, "°C")),
            ((power,), _measured(power, "W")),
        )
        for lane, (values, words) in zip(self.lanes[2:], readings, strict=True):
            for series, value in zip(lane.series, values, strict=True):
                series.append(sample.at, value)
            lane.present = lane.present or any(value is not None for value in values)
            lane.value = words


def _gib(count: int | None) -> float | None:
    return None if count is None else count / GIB


def _measured(value: float | None, unit: str) -> str:
    return ABSENT if value is None else f"{number(value, '.0f')}\N{NO-BREAK SPACE}{unit}"


def _percent(percentage: float | None) -> str:
    return percent(None if percentage is None else percentage / 100)
