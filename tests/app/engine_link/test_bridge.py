from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest
from desk import PATIENCE_MS, drain
from fake_engine import PLAN, FakeEngine, Script
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.composer.composer_state import composer_state
from app.chat.machine_words import machine_words
from app.engine_link.bridge import EngineBridge, EngineLike
from app.engine_link.status import EngineStatus, Phase
from app.tuning.first_calibration import measure_once
from engine.commands import Calibrate, Generate, Load, Stop
from engine.events import (
    AnswerStats,
    Calibrated,
    CalibrationProgress,
    DeviceSample,
    Event,
    Failed,
    Finished,
    FinishReason,
    Interval,
    LoadProgress,
    MachineFound,
    Origin,
    PlanReady,
    PrefillProgress,
    RoundFinished,
    TextDelta,
    TokenSpan,
    Unloaded,
)
from engine.machine.facts import Accelerator, Host, Machine
from engine.machine.speeds import Speeds
from engine.request import ChatRequest, Message, Role

LOAD = Load(Path("model"))
RESPLIT = Load(Path("model"), layers_on_gpu=2, after_answer=True)
READY = PlanReady(0.0, Path("model"), "Duotail 7M", PLAN)
GENERATE = Generate(ChatRequest("a", (Message(Role.USER, "Hi"),)))
STATS = AnswerStats(0, 0, 0, 0, 0, 0, 0, (), (), None, None, None, 0.0)


def _finished(request_id: str = "a") -> Finished:
    return Finished(0.0, request_id, FinishReason.STOP, "", (), STATS)


def test_events_arrive_in_order_in_the_window_s_thread(qtbot: QtBot) -> None:
    script = Script(answer=" ".join(f"word{number}" for number in range(300)))
    bridge = EngineBridge(lambda emit: FakeEngine(emit, script))
    threads: set[int] = set()
    text: list[str] = []

    def take(event: TextDelta) -> None:
        threads.add(threading.get_ident())
        text.append(event.text)

    ended: list[Finished] = []
    bridge.subscribe(TextDelta, take)
    bridge.subscribe(Finished, ended.append)
    bridge.start(lambda: LOAD)
    bridge.submit(GENERATE)
    qtbot.waitUntil(lambda: bool(ended))
    assert "".join(text) == script.answer
    assert threads == {threading.get_ident()}
    assert bridge.status.phase is Phase.READY
    assert bridge.status.wanted == LOAD
    bridge.close()


def test_text_of_one_frame_comes_in_one_piece(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine_link.bridge._DRAIN_BUDGET_S", 60.0)
    engine: list[Callable[[Event], None]] = []

    def silent(emit: Callable[[Event], None]) -> EngineLike:
        engine.append(emit)
        return FakeEngine(lambda _event: None, Script())

    bridge = EngineBridge(silent)
    seen: list[object] = []
    frames: list[tuple[Event, ...]] = []
    for kind in (TextDelta, RoundFinished, DeviceSample, Finished):
        bridge.subscribe(kind, seen.append)
    bridge.frame.connect(frames.append)
    newest: list[RoundFinished] = []
    bridge.subscribe_newest(RoundFinished, newest.append)
    bridge.start()
    qtbot.waitUntil(lambda: bool(engine))
    for event in (
        _text("one ", 0),
        _round(1),
        _text("two ", 4),
        _round(2),
        DeviceSample(0.0, None, None, None, None),
        _text("three", 8),
        _round(3),
        _text("four", 0, "b"),
        _finished(),
    ):
        engine[0](event)
    drain(bridge)
    assert [event.text if isinstance(event, TextDelta) else type(event) for event in seen] == [
        DeviceSample,
        "one two three",
        RoundFinished,
        RoundFinished,
        RoundFinished,
        "four",
        Finished,
    ]
    whole = seen[1]
    assert isinstance(whole, TextDelta)
    assert [(span.start, span.end) for span in whole.spans] == [(0, 4), (4, 8), (8, 13)]
    assert [event.index for event in seen if isinstance(event, RoundFinished)] == [1, 2, 3]
    assert frames == [tuple(seen)]
    assert [event.index for event in newest] == [3]
    bridge.close()


def _text(text: str, start: int, request_id: str = "a") -> TextDelta:
    span = TokenSpan(7, start, start + len(text), Origin.TARGET)
    return TextDelta(0.0, request_id, text, (span,))


def _round(index: int) -> RoundFinished:
    return RoundFinished(1.0, "a", index, None, Interval(0.0, 1.0), 0, 0, 1)


def test_commands_sent_while_the_engine_starts_wait_for_it(qtbot: QtBot) -> None:
    gate = threading.Event()
    script = Script()

    def slow(emit: Callable[[Event], None]) -> EngineLike:
        gate.wait(PATIENCE_MS / 1000)
        return FakeEngine(emit, script)

    bridge = EngineBridge(slow)
    bridge.start(lambda: LOAD)
    bridge.submit(GENERATE)
    assert bridge.status.phase is Phase.PREPARING
    gate.set()
    qtbot.waitUntil(lambda: len(script.requests) == 1)
    assert [type(command) for command in script.commands] == [Load, Generate]
    bridge.close()


def test_who_goes_while_the_engine_starts_is_destroyed_in_the_windows_thread(
    qtbot: QtBot,
) -> None:
    started, gone = threading.Event(), list[threading.Thread]()

    def slow(emit: Callable[[Event], None]) -> EngineLike:
        started.wait()
        return FakeEngine(emit, Script())

    bridge = EngineBridge(slow)
    bridge.destroyed.connect(
        lambda: gone.append(threading.current_thread()), Qt.ConnectionType.DirectConnection
    )
    bridge.start()
    del bridge
    assert gone == []
    started.set()
    qtbot.waitUntil(lambda: bool(gone))
    assert gone == [threading.current_thread()]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
def test_threads_of_the_engine_give_way_to_the_window(qtbot: QtBot) -> None:
    niceness: list[int] = []

    def measured(emit: Callable[[Event], None]) -> EngineLike:
        begun = threading.Thread(target=lambda: niceness.append(os.getpriority(os.PRIO_PROCESS, 0)))
        begun.start()
        begun.join()
        return FakeEngine(emit, Script())

    before = os.getpriority(os.PRIO_PROCESS, 0)
    bridge = EngineBridge(measured)
    bridge.start()
    qtbot.waitUntil(lambda: bool(niceness))
    assert niceness[0] == min(before + 5, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    bridge.close()


def test_an_engine_that_does_not_start_is_told(qtbot: QtBot) -> None:
    def broken(_emit: Callable[[Event], None]) -> EngineLike:
        raise ImportError("no module named torch")

    bridge = EngineBridge(broken)
    told: list[Failed] = []
    bridge.subscribe(Failed, told.append)
    bridge.start(lambda: LOAD)
    qtbot.waitUntil(lambda: bool(told))
    assert bridge.status.phase is Phase.BROKEN
    assert "no module named torch" in told[0].details
    bridge.close()


@pytest.mark.qt_no_exception_capture
def test_one_bad_reader_does_not_silence_the_others(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BaseException] = []
    monkeypatch.setattr("sys.excepthook", lambda _kind, error, _trace: seen.append(error))
    bridge = EngineBridge(lambda emit: FakeEngine(emit, Script()))
    ready: list[PlanReady] = []

    def bad(_event: PlanReady) -> None:
        raise ValueError("mine")

    bridge.subscribe(PlanReady, bad)
    bridge.subscribe(PlanReady, ready.append)
    bridge.start(lambda: LOAD)
    qtbot.waitUntil(lambda: bool(ready))
    assert [str(error) for error in seen] == ["mine"]
    bridge.close()


@pytest.mark.usefixtures("qapp")
def test_the_timer_slows_down_when_nothing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = EngineBridge(lambda emit: FakeEngine(emit, Script()))
    busy = bridge._timer.interval()
    monkeypatch.setattr("app.engine_link.bridge.time.perf_counter", lambda: perf_counter() + 100)
    bridge.drain()
    assert bridge._timer.interval() > busy
    bridge.submit(LOAD)
    assert bridge._timer.interval() == busy


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("cores", [2, 16])
def test_text_that_keeps_coming_is_handed_out_less_often_on_few_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    clock = [100.0]
    monkeypatch.setattr("app.engine_link.bridge.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("app.engine_link.bridge.available_cores", lambda: cores)
    bridge = EngineBridge(lambda emit: FakeEngine(emit, Script()))
    bridge.submit(LOAD)
    usual = bridge._timer.interval()

    def interval_after(seconds: float, *events: Event) -> int:
        clock[0] += seconds
        bridge._events.extend(events)
        bridge.drain()
        return bridge._timer.interval()

    assert interval_after(0.03, _text("the first words", 0)) == usual
    streaming = interval_after(0.03, _text("more", 15))
    assert streaming > usual if cores == 2 else streaming == usual
    # A frame without a word is no end of it, a pause is.
    assert interval_after(0.1) == streaming
    assert interval_after(0.1, _text("more", 19), _round(1)) == streaming
    assert interval_after(0.5) == usual
    assert interval_after(0.03, _text("after a pause", 23)) == usual


def _after(*steps: object) -> EngineStatus:
    status = EngineStatus()
    for step in steps:
        if isinstance(step, Load | Generate | Stop):
            status = status.told(step)
        else:
            status = status.after(step)  # type: ignore[arg-type]
    return status


@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        ((LOAD,), Phase.LOADING),
        ((LOAD, LoadProgress(0.0, "x", 0.5)), Phase.LOADING),
        ((LOAD, READY), Phase.READY),
        ((LOAD, Failed(0.0, None, "a", "b"), Unloaded(0.0)), Phase.NO_MODEL),
        ((LOAD, READY, LOAD, Failed(0.0, None, "a", "b"), READY), Phase.READY),
        ((LOAD, GENERATE), Phase.LOADING),
        ((LOAD, GENERATE, READY), Phase.WAITING),
        ((LOAD, READY, GENERATE), Phase.WAITING),
        ((LOAD, READY, GENERATE, PrefillProgress(0.0, "a", 1, 9, 0)), Phase.READING),
        ((LOAD, READY, GENERATE, TextDelta(0.0, "a", "x", ())), Phase.WRITING),
        ((LOAD, READY, GENERATE, TextDelta(0.0, "other", "x", ())), Phase.WAITING),
        ((LOAD, READY, GENERATE, Stop("a")), Phase.STOPPING),
        ((LOAD, READY, GENERATE, Stop("a"), TextDelta(0.0, "a", "x", ())), Phase.STOPPING),
        ((LOAD, READY, GENERATE, Stop("a"), _finished()), Phase.READY),
        ((LOAD, READY, GENERATE, Failed(0.0, "a", "c", "r"), _finished()), Phase.READY),
        ((LOAD, READY, GENERATE, LOAD, _finished()), Phase.LOADING),
        ((LOAD, READY, GENERATE, TextDelta(0.0, "a", "x", ()), RESPLIT), Phase.WRITING),
        ((LOAD, READY, GENERATE, RESPLIT, _finished(), LoadProgress(0.0, "x", 0)), Phase.LOADING),
        ((LOAD, READY, RESPLIT), Phase.LOADING),
        ((LOAD, READY, Unloaded(0.0)), Phase.NO_MODEL),
        ((LOAD, READY, Stop(None)), Phase.READY),
    ],
)
def test_status_follows_commands_and_events(steps: tuple[object, ...], phase: Phase) -> None:
    status = _after(*steps)
    assert status.phase is phase
    assert status.words


def test_a_measurement_shows_while_nothing_else_goes_on() -> None:
    measuring = _after(LOAD, READY, CalibrationProgress(0.0, "Reading", 0.25))
    assert measuring.measuring
    assert "Measuring this computer" in measuring.words
    assert composer_state(measuring, answering=False).can_send
    asked = measuring.told(GENERATE)
    assert not asked.measuring
    assert asked.phase is Phase.WAITING
    for ended in (Calibrated(0.0, None), Calibrated(0.0, Speeds({}))):
        assert not measuring.after(ended).measuring
        assert measuring.after(ended).words == "Ready"


@pytest.mark.parametrize(
    ("layers", "device", "simulated", "words"),
    [
        (0, "CPU", False, "CPU, draft: SmolLM2 135M draft + lookup"),
        (24, "CPU", False, "draft on the CPU, target on the GPU (24 of 36 layers) and the CPU"),
        (36, "Card", False, "draft on the GPU, target on the GPU"),
        (0, "Card", True, "draft on the simulated GPU, target on the CPU"),
        (3, "Card", True, "target on the simulated GPU (3 of 36 layers) and the CPU"),
    ],
)
def test_the_split_is_told(layers: int, device: str, simulated: bool, words: str) -> None:
    card = Accelerator("cuda:0", "Card", memory_total=8 << 30, simulated=simulated)
    machine = Machine(Host(4, 16 << 30, 8 << 30), (card,))
    plan = replace(PLAN, layers=36, layers_on_gpu=layers, draft_device=device)
    status = _after(LOAD, MachineFound(0.0, machine), replace(READY, plan=plan))
    assert words in status.plan_words


@pytest.mark.parametrize(
    ("accelerators", "words"),
    [
        ((), ["4 CPU cores and 16.0", "No GPU was found."]),
        ((Accelerator("cuda:0", "RTX 4060", memory_total=8 << 30),), ["16.0", "RTX 4060 with 8.0"]),
        (
            (Accelerator("", "RX 580", unusable="this torch is built for CPUs only"),),
            ["4 CPU cores and", "RX 580 is not used: this torch is built for CPUs only."],
        ),
    ],
)
def test_what_was_found_is_told(accelerators: tuple[Accelerator, ...], words: list[str]) -> None:
    told = machine_words(Machine(Host(4, 16 << 30, 8 << 30), accelerators))
    assert all(each in told for each in words), told
    assert ("No GPU" in told) == (not accelerators)


def test_a_machine_is_measured_once_if_it_never_was(qtbot: QtBot) -> None:
    script = Script(plan=replace(PLAN, measured=False))
    bridge = EngineBridge(lambda emit: FakeEngine(emit, script))
    measure_once(bridge)
    plans: list[PlanReady] = []
    bridge.subscribe(PlanReady, plans.append)
    bridge.start(lambda: LOAD)
    bridge.submit(LOAD)
    qtbot.waitUntil(lambda: len(plans) == 2)
    bridge.close()
    assert script.commands.count(Calibrate()) == 1
    known = Script()
    bridge = EngineBridge(lambda emit: FakeEngine(emit, known))
    measure_once(bridge)
    bridge.subscribe(PlanReady, plans.append)
    bridge.start(lambda: LOAD)
    qtbot.waitUntil(lambda: len(plans) == 3)
    bridge.close()
    assert Calibrate() not in known.commands


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("answering", [True, False])
def test_whenever_sending_is_impossible_a_reason_or_a_stop_button_is_there(
    phase: Phase, answering: bool
) -> None:
    for elsewhere in ("", "Other chat"):
        state = composer_state(EngineStatus(phase), answering=answering, elsewhere=elsewhere)
        stopping = answering and phase is Phase.STOPPING
        assert state.can_send or state.reason or state.can_stop or stopping


def test_reading_a_prompt_tells_how_long_it_will_take() -> None:
    status = EngineStatus(Phase.WAITING, request_id="1")
    status = status.after(PrefillProgress(10.0, "1", 200, 1_000, 200))
    assert status.words == "Reading the prompt: 20\u202f%"
    status = status.after(PrefillProgress(14.0, "1", 400, 1_000, 200))
    assert status.words == "Reading the prompt: 40\u202f%, about 12\u00a0s left"
    status = status.after(PrefillProgress(15.9, "1", 1_000, 1_000, 200))
    assert status.words == "Reading the prompt: 100\u202f%, about 1\u00a0s left"
    status = replace(status, request_id="2").after(PrefillProgress(20.0, "2", 64, 128, 0))
    assert status.words == "Reading the prompt: 50\u202f%"
    status = replace(status, request_id="3").after(PrefillProgress(30.0, "3", 10, 20_010, 0))
    status = status.after(PrefillProgress(38.8, "3", 210, 20_010, 0))
    assert status.words == "Reading the prompt: 1\u202f%, about 15\u00a0min left"


def test_the_first_tokens_of_a_prompt_tell_no_time() -> None:
    """The time that was left jumped from minutes to hours and back while 0 % was read."""
    status = EngineStatus(Phase.WAITING, request_id="1")
    told = []
    for at, done in ((0.0, 0), (0.5, 64), (4.0, 150), (5.0, 220), (6.0, 300)):
        status = status.after(PrefillProgress(10.0 + at, "1", done, 20_000, 0))
        told.append(status.left_s is not None)
    assert told == [False, False, False, True, True]
    status = EngineStatus(Phase.WAITING, request_id="2")
    status = status.after(PrefillProgress(10.0, "2", 0, 1_000, 0))
    status = status.after(PrefillProgress(10.4, "2", 100, 1_000, 0))
    assert status.left_s is None, "a moment tells no pace"
