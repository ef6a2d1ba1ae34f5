"""Ends before a command has begun, or once nobody reads: Ctrl+C, pipes, no screen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import ROOT, start

from app import launch
from engine.cli.exit_code import ExitCode


def test_a_reader_that_is_gone_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with start("models", "ps", stdout=theirs) as process:
        os.close(theirs)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == ExitCode.READER_GONE


def test_ctrl_c_before_anything_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "_run", interrupted)
    assert launch.main(["chat"]) == ExitCode.INTERRUPTED


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is a screen")
def test_no_window_without_a_screen() -> None:
    environment = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": ""}
    done = subprocess.run(
        [sys.executable, "-m", "app"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("There is no screen here.")
