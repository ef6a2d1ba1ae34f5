"""What the window may cost, with the real engine. Bounds are generous: machines differ and share.

`duotail --measure-window` on a screen of its own gives the numbers to judge by.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

import app.launch
from app.bridge import real_engine
from app.measure import Probe

_ROOT = Path(__file__).parents[2]


def test_the_window_keeps_its_budgets() -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.run(
        [sys.executable, "-m", "app", "--measure-window", "2", "--json"],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    measured = json.loads(process.stdout)
    assert not measured["torch_imported"]
    assert measured["window_s"] < 6
    assert measured["window_s"] < measured["ready_s"] < 12
    assert measured["stall_loading_ms"] < 250
    assert measured["stall_streaming_ms"] < 250
    assert measured["frames"] > 3
    assert measured["frame_p99_ms"] < 150
    assert measured["tokens_per_s"] > 20
    assert measured["window_cost"] < 0.7


def test_the_probe_sees_a_stall(qtbot: QtBot) -> None:
    window = QObject()
    probe = Probe(window)
    probe.start()
    QTimer.singleShot(0, lambda: _work(0.03))
    qtbot.waitUntil(lambda: max(probe.gaps, default=0.0) >= 30)
    probe.stop()


def test_the_real_engine_seldom_waits_for_a_busy_window() -> None:
    before = sys.getswitchinterval()
    try:
        real_engine(lambda _event: None).close()
        assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_rounds_are_counted_from_one(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.launch.main([f"--measure-window={rounds}"])
    assert ended.value.code == 2
    assert "--measure-window" in capsys.readouterr().err


def _work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
