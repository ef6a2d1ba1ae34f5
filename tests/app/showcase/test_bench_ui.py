"""What the window may cost, with the real engine. Bounds are generous: machines differ and share.

`duotail bench ui` on a screen of its own gives the numbers to judge by.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

import app.launch
from app.display import check_display
from app.engine_link.bridge import EngineBridge, real_engine
from app.engine_link.status import Phase
from app.history import HistoryStore
from app.showcase.measure.archive import RARE, fill, write_conversation
from app.showcase.measure.engine import QUESTION, Tap
from app.showcase.measure.probe import Probe, Spent, Waits
from app.showcase.measure.random_model import SCRIPT, shape_path
from app.showcase.measure.report import Cost, MeasureSetup, Start, Streaming, UiReport, table
from engine.bench import shapes
from engine.commands import Generate, Load
from engine.errors import Absent, UserFixable
from engine.events import Event, Failed, Finished, PlanReady, TextDelta
from engine.request import ChatRequest, Message, Role

_ROOT = Path(__file__).parents[3]


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
    return subprocess.run(
        [sys.executable, "-m", "app", "bench", "ui", *arguments],
        cwd=_ROOT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=140,
        check=False,
    )


def _measured() -> dict[str, Any]:
    few = ["--pairs", "2", "--messages", "200", "--large", "1", "--seconds", "1", "--tokens", "900"]
    process = _run("--json", *few, QT_QPA_PLATFORM="offscreen")
    assert process.returncode == 0, process.stderr
    assert not process.stderr
    report: dict[str, Any] = json.loads(process.stdout)
    return report


def _missed(report: dict[str, Any]) -> list[str]:
    """The bounds that a run did not keep: a busy machine misses one now and then."""
    start, cost, opening = report["start"], report["cost"], report["opening"]
    bounds = [
        ("start, window", start["window_s"], 6),
        ("start, ready", start["ready_s"], 12),
        ("start, stall", start["stall_ms"], 250),
        ("opening", opening["painted_ms"], 2000),
        ("searching", report["searching"]["slowest_ms"], 1000),
        ("cost", cost["cost"], 0.7),
        ("slowness alone", 1 / cost["alone_tokens_per_s"], 1 / 20),
        ("slowness at full speed", 1 / report["streaming"][1]["tokens_per_s"], 1 / 20),
    ]
    for each in report["streaming"]:
        bounds.append((f"few frames, {each['pace']}", 1 / each["waits"]["frames"], 1 / 3))
        bounds.append((f"frames, {each['pace']}", each["waits"]["frame_p99_ms"], 150))
        bounds.append((f"stall, {each['pace']}", each["waits"]["stall_ms"], 250))
    return [f"{name}: {found}" for name, found, most in bounds if found >= most]


@pytest.mark.release(reason="measures the window")
def test_the_window_keeps_its_budgets() -> None:
    """Each bound in one of four runs at least: a window that is slow by itself is so in all."""
    missed: set[str] = set()
    for attempt in range(4):
        report = _measured()
        start, (paced, full) = report["start"], report["streaming"]
        assert not start["torch_imported"]
        assert start["window_s"] < start["ready_s"]
        assert paced["pace"] == 200
        assert paced["tokens_per_s"] <= 210
        for each in (paced, full):
            assert each["waits"]["frames"] >= 1
        assert report["cost"]["tokens"] == 900, "an answer that does not end by itself"
        assert report["cost"]["low"] <= report["cost"]["cost"] <= report["cost"]["high"]
        assert report["budgets"]["window_s"]["budget"] == 1.5
        now = _missed(report)
        names = {each.partition(":")[0] for each in now}
        missed = names if attempt == 0 else missed & names
        if not missed:
            return
    pytest.fail(f"missed in all runs: {now}")


def test_without_a_screen_it_ends_with_three() -> None:
    process = _run("--json", DISPLAY="", QT_QPA_PLATFORM="")
    assert process.returncode == 3
    assert json.loads(process.stdout)["remedy"]


def test_a_screen_is_there_when_a_server_answers() -> None:
    check_display({"QT_QPA_PLATFORM": "offscreen"})
    check_display({"DISPLAY": "elsewhere:0"})
    number = 10_000 + os.getpid()  # of this run alone
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0/tmp/.X11-unix/X{number}")
        server.listen()
        check_display({"DISPLAY": f":{number}"})
    with pytest.raises(Absent, match=f":{number}"):
        check_display({"DISPLAY": f":{number}"})
    with pytest.raises(Absent):
        check_display({})


@pytest.mark.parametrize(
    "arguments", [["--pairs", "0"], ["--size", "wide"], ["--shape", "s", "--model", "m"]]
)
def test_bad_usage_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.launch.main(["bench", "ui", *arguments])
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_the_probe_sees_a_stall(qtbot: QtBot) -> None:
    probe = Probe(QObject())
    probe.start()
    QTimer.singleShot(0, lambda: _work(0.03))
    qtbot.waitUntil(lambda: max(probe.gaps, default=0.0) >= 30)
    assert probe.take().stall_ms >= 30
    assert probe.take() == Waits(0, 0.0, 0.0, 0.0)


def test_the_engine_seldom_waits_for_a_busy_window(qtbot: QtBot) -> None:
    before = sys.getswitchinterval()
    bridge = EngineBridge(real_engine)
    try:
        sys.setswitchinterval(0.005)  # Python's own: other tests may have started an engine
        bridge.start()
        qtbot.waitUntil(lambda: bridge.status.phase is Phase.NO_MODEL, timeout=60_000)
        assert sys.getswitchinterval() <= 0.001
    finally:
        bridge.close()
        sys.setswitchinterval(before)


def test_an_answer_is_told_at_the_wished_pace_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shapes.SHAPES, "tiny", shapes._qwen2(1, 64, 128, (2, 1)))
    before = sys.getswitchinterval()
    events: list[Event] = []
    loaded = threading.Event()

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, PlanReady):
            loaded.set()

    tap = Tap(tokens=30)
    tap.make(hear)
    try:
        tap.submit(Load(shape_path("tiny"), context=512))
        assert loaded.wait(120)
        tap.pace = 150.0
        began = time.perf_counter()
        tap.answer_alone()
        assert time.perf_counter() - began >= 29 / 150
        assert not any(isinstance(event, Finished) for event in events)
        tap.pace = None
        tap._ended.clear()
        tap.submit(Generate(ChatRequest("heard", (Message(Role.USER, QUESTION),))))
        assert tap._ended.wait(120)
    finally:
        tap.close()
        sys.setswitchinterval(before)
    assert not any(isinstance(event, Failed) for event in events)
    assert [event.model_name for event in events if isinstance(event, PlanReady)] == ["tiny"]
    told = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert len(told) == 120
    assert told in SCRIPT * 3
    assert tap.tokens_per_s > 0


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(UserFixable, match="no shape"):
        shape_path("enormous")


def test_what_is_opened_and_searched_is_there(tmp_path: Path) -> None:
    with HistoryStore.open(tmp_path / "history.sqlite3") as store:
        conversation = write_conversation(store, 30)
        messages = store.branches.messages(conversation.id)
        assert len(messages) == 30
        assert any("```" in message.text for message in messages)
        fill(store, 200_000)
        assert len({hit.conversation.id for hit in store.search(RARE)}) == 1


def test_the_cost_is_the_median_of_pairs() -> None:
    alone, shown = [100.0, 200.0, 100.0], [90.0, 190.0, 50.0]
    cost = Cost.of(400, alone, shown, Spent(1.0, None), 10.0)
    assert (cost.pairs, cost.alone_tokens_per_s, cost.shown_tokens_per_s) == (3, 100.0, 90.0)
    assert cost.cost == pytest.approx(0.1)
    assert cost.low == pytest.approx(0.075)
    assert cost.high == pytest.approx(0.3)
    assert (cost.window_share, cost.screen_share) == (0.1, None)


def test_the_table_says_which_budgets_are_kept() -> None:
    setting = MeasureSetup("Duotail 7M", 2, 2, "xcb", "dark", 1280, 800, 1.0, panel=True)
    streaming = Streaming(200.0, 199.0, Waits(99, 3.0, 21.5, 44.0), 0.1, 0.02)
    report = UiReport(setting, Start(0.5, 0.8, 20.0, torch_imported=False), (streaming,))
    lines = table(report).splitlines()
    (frame,) = (line for line in lines if line.startswith("Frame"))
    assert frame.split()[-5:] == ["21.5", "ms", "16.0", "ms", "OVER"]
    (stall,) = (line for line in lines if line.startswith("Longest stall, 200"))
    assert stall.endswith("kept")
    assert any("the X server 2\u202f%" in line for line in lines)


def _work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
