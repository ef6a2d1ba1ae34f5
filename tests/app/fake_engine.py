"""An engine that plays a script: real threads and real event types, no model."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from app.models.hub import Hub, Listener
from app.showcase.budgets import previewed
from app.showcase.engine import ScriptedEngine
from app.showcase.hub import HubScript, ScriptedHub
from app.showcase.script import FIRST_ID, MODEL_NAME, PLAN, Pace, rounds, sample, stats, words
from engine.commands import (
    Calibrate,
    Command,
    Compare,
    Count,
    Generate,
    Load,
    Preview,
    Stop,
    Unload,
)
from engine.events import (
    Calibrated,
    CalibrationProgress,
    Counted,
    DraftHere,
    Event,
    Failed,
    Finished,
    FinishReason,
    LoadProgress,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    Previewed,
    Unloaded,
)
from engine.machine.speeds import Speeds
from engine.request import ChatRequest, Role

PACE = Pace(tokens=3, seconds=0.02)


@dataclass
class Script:
    """What the fake engine does; a test changes it at will."""

    answer: str = "Hello! I am **Duotail**, how can I help?"
    pace_s: float = 0.0
    hold_after: int | None = None
    """Wait before this round until `gate` is set (or the answer is stopped)."""
    gate: threading.Event = field(default_factory=threading.Event)
    fail_answer: Failed | None = None
    fail_load: Failed | None = None
    load_gate: threading.Event | None = None
    """A load waits for it."""
    stops_loads: bool = True
    """False: a load that is called off was too far to be stopped."""
    reason: FinishReason = FinishReason.STOP
    requests: list[ChatRequest] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    plan: PlanSummary = PLAN
    drafts: tuple[DraftHere, ...] = ()
    """What can draft on this disk, whatever is loaded."""
    starter: Path | None = Path("model")
    """Where the starter model is; None: it is not on this computer."""
    preview: Callable[[Load], Previewed] | None = previewed
    """What `Preview` is answered with; None: with silence."""
    announce: Callable[[Load], PlanSummary] | None = None
    """The plan of a load; None: `plan`, whatever is asked for."""
    counting: bool = True
    """False: `Count` is answered with silence."""
    uncountable: str = ""
    """Why no request can be counted, if none can."""
    speeds: Speeds | None = None
    """What `Calibrate` ends in; it waits for `gate`, or to be stopped, and then has none."""
    compare: list[Event] = field(default_factory=list)
    """What is said of a comparison; its last event comes when `gate` is set, or at a stop."""

    hub: HubScript = field(default_factory=HubScript)
    """What the Models page finds."""
    scripted_hub: ScriptedHub | None = None
    """Speaks for it, once it is made."""

    def make_hub(self, listener: Listener) -> Hub:
        """The hub of a window."""
        self.scripted_hub = ScriptedHub(self.hub, listener)
        return self.scripted_hub.hub

    def count(self, request: ChatRequest) -> int:
        """What `Count` is answered with: a token for each word."""
        return sum(len(words(message.text)) for message in request.messages)


class FakeEngine(ScriptedEngine):
    """Plays its script on a thread of its own."""

    def __init__(self, emit: Callable[[Event], None], script: Script) -> None:
        super().__init__(emit)
        self._script = script
        self._queue: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._called_off = threading.Event()
        self._loaded: Load | None = None
        self._thread = threading.Thread(target=self._run, name="fake-engine", daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> None:
        self._script.commands.append(command)
        if self._script.preview is None and isinstance(command, Preview):
            return
        if isinstance(command, Count) and not self._script.counting:
            return
        if isinstance(command, Count) and self._script.uncountable:
            refused = self._script.uncountable
            self._emit(Counted(perf_counter(), command.id, 0, self.context, refused=refused))
            return
        self.preview, self.context = self._script.preview or previewed, self._script.plan.context
        self.drafts = self._script.drafts
        super().submit(command)

    def count(self, request: ChatRequest) -> int:
        return self._script.count(request)

    def perform(self, command: Command) -> None:
        if isinstance(command, Stop) or (isinstance(command, Load) and not command.after_answer):
            self._stop.set()
        if isinstance(command, Load):
            self._called_off.clear()
        if command == Stop() and self._script.stops_loads:
            self._called_off.set()
        if not isinstance(command, Stop):
            self._queue.put(command)

    def close(self, timeout: float = 5.0) -> None:
        self._stop.set()
        self._queue.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        self._emit(sample(0.0, 72.0))
        while (command := self._queue.get()) is not None:
            match command:
                case Load(context=context):
                    if context is not None:
                        self._script.plan = replace(self._script.plan, context=context)
                    self._load(command)
                case Generate(request):
                    self._stop.clear()
                    self._generate(request)
                case Calibrate():
                    self._stop.clear()
                    self._calibrate()
                case Compare():
                    self._compare()
                case Unload():
                    self._loaded = None
                    self._emit(Unloaded(perf_counter()))

    def _load(self, load: Load) -> None:
        if self._script.load_gate is not None:
            while not self._script.load_gate.wait(0.005) and not self._called_off.is_set():
                pass
        if self._called_off.is_set():
            self._tell_loaded()
            return
        if self._script.fail_load is not None:
            self._emit(self._script.fail_load)
            self._tell_loaded()
            return
        self._emit(LoadProgress(perf_counter(), "Reading weights", 0.4))
        self._loaded = load
        self._announce(load)

    def _tell_loaded(self) -> None:
        if self._loaded is None:
            self._emit(Unloaded(perf_counter()))
        else:
            self._announce(self._loaded)

    def _compare(self) -> None:
        self._stop.clear()
        *progress, ended = self._script.compare
        for event in progress:
            self._emit(event)
        while not self._script.gate.wait(0.005) and not self._stop.is_set():
            pass
        stopped = self._stop.is_set()
        if self._loaded is not None:
            self._announce(self._loaded)
        self._emit(replace(ended, complete=False, winner=None) if stopped else ended)  # type: ignore[call-arg]

    def _announce(self, load: Load) -> None:
        made = self._script.announce
        plan = self._script.plan if made is None else made(load)
        self._emit(PlanReady(perf_counter(), load.model, MODEL_NAME, plan, load))

    def _calibrate(self) -> None:
        self._emit(CalibrationProgress(perf_counter(), "Reading memory", 0.4))
        while not self._script.gate.wait(0.005) and not self._stop.is_set():
            pass
        speeds = None if self._stop.is_set() else self._script.speeds
        self._emit(Calibrated(perf_counter(), speeds))

    def _generate(self, request: ChatRequest) -> None:
        script = self._script
        script.requests.append(request)
        if script.fail_answer is not None:
            self._emit(replace(script.fail_answer, at=perf_counter(), request_id=request.id))
            self._finish(request, "", FinishReason.ERROR)
            return
        self._emit(PrefillProgress(perf_counter(), request.id, 12, 24, 0))
        begun = ""
        if request.messages[-1].role is Role.ASSISTANT:
            begun = request.messages[-1].text
        told: list[str] = []
        reason = script.reason
        steps = rounds(request.id, script.answer[len(begun) :], perf_counter, PACE, _units(begun))
        for index, (delta, done) in enumerate(steps):
            held = script.hold_after is not None and index >= script.hold_after
            while held and not script.gate.wait(0.005) and not self._stop.is_set():
                pass
            if self._stop.wait(script.pace_s):
                reason = FinishReason.STOPPED
                break
            self._emit(delta)
            plain = replace(done, drafted=0, accepted=0, drafting=(), committed=1)
            self._emit(done if request.drafting else plain)
            told.append(delta.text)
        self._finish(request, "".join(told), reason)

    def _finish(self, request: ChatRequest, text: str, reason: FinishReason) -> None:
        tokens = len(words(text))
        told = stats(tokens, pace=PACE)
        self._emit(
            Finished(
                perf_counter(),
                request.id,
                reason,
                text,
                tuple(range(FIRST_ID, FIRST_ID + tokens)),
                told if request.drafting else replace(told, drafted=0, accepted=0),
                request.sampling.seed,
                PLAN.signature,
            )
        )


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
