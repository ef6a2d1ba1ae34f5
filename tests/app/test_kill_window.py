"""kill -9 at any moment: every conversation is there, and half an answer goes on as if nothing was.

`DUOTAIL_KILLS` says how often with `--release`; `tests/app/killing.py` does it as a script.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from killing import BEAT, HALF, PATIENCE, UNSAVED, WHOLE, Killings, Told, wait_patiently
from pytestqt.qtbot import QtBot
from window_child import what_to_load

from app.application import Assembly
from app.data_folder.paths import find_paths
from app.engine_link.status import Phase
from app.theme.theme import Theme
from engine.commands import Mode
from tests import stopwatch

KILLS = int(os.environ.get("DUOTAIL_KILLS", "200"))
"""Before a release; from day to day only answers are cut off, until half of one is kept."""
LATE = 0.05
"""Seconds by which saving may be late among what else the window has to do."""

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL"),
    pytest.mark.timeout(3600),  # how many kills it takes is a matter of luck
]


@pytest.mark.parametrize(
    "kills", [0, pytest.param(KILLS, marks=pytest.mark.release(reason="every kill"))]
)
def test_nothing_is_lost_however_often_the_window_is_killed(
    tmp_path: Path, theme: Theme, qtbot: QtBot, kills: int
) -> None:
    killings = Killings(tmp_path, seed=3)
    for _ in range(kills):
        kill(killings)
    found = killings.findings
    killings.moments = (HALF,)
    while not found.half_answers and found.kills < 10 * KILLS:
        kill(killings)  # there has to be a half answer among what was left
    assert found.half_answers > 0
    assert max(found.lost_seconds) < UNSAVED + LATE
    with stopwatch.ALONE:
        the_window_goes_on(tmp_path, theme, qtbot)


@pytest.mark.release(reason="the same kills in another loop")
def test_nor_where_it_drafts_while_it_verifies(tmp_path: Path) -> None:
    """The answers are those of the target alone, and so is what continues a half one."""
    killings = Killings(tmp_path, seed=5, mode=Mode.DUO, moments=(HALF,))
    found = killings.findings
    while not found.continued and found.kills < 10 * KILLS:
        kill(killings)
    assert found.continued > 0


class Turns(threading.Event):
    """A wait that is over at once, and in which the window has told something."""

    def __init__(self, told: Told, turns: Iterable[Sequence[str]]) -> None:
        super().__init__()
        self._told, self._turns = told, iter(turns)

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        self._told.lines += [{"kind": kind} for kind in next(self._turns)]
        return bool(self._told.of("text"))


SLOW, BUSY = ["alive"] * 100, ["alive"] * round(PATIENCE / BEAT)
"""What a window tells in `PATIENCE` with hardly any of the machine, and with all of it."""


@pytest.mark.parametrize(
    ("turns", "came"),
    [
        ([[], SLOW, SLOW, SLOW, ["text"]], True),
        ([SLOW, SLOW, [], ["text"]], False),  # it hangs
        ([[], [], ["text"]], False),
        ([SLOW, BUSY, ["text"]], False),  # it had time enough
    ],
)
def test_a_window_may_be_slow_but_neither_idle_nor_silent(
    turns: list[list[str]], came: bool
) -> None:
    told = Told()
    assert wait_patiently(Turns(told, turns), told) is came


def kill(killings: Killings) -> None:
    """Kill it once, alone; then leave others, who look every 50 ms, the time to take their turn."""
    with stopwatch.ALONE:
        killings.kill()
    time.sleep(0.2)


def the_window_goes_on(data: Path, theme: Theme, qtbot: QtBot) -> None:
    """What was shown last is shown again, and "continue" finishes it."""
    assembly = Assembly(find_paths(str(data)), theme)
    qtbot.addWidget(assembly.window)
    session = assembly.session
    try:
        assembly.bridge.start(what_to_load)
        qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.READY, timeout=60_000)
        assert session.messages
        if session.can_continue:
            half = session.messages[-1]
            session.continue_answer()
            qtbot.waitUntil(lambda: session.live is None, timeout=60_000)
            assert session.messages[-1].text.startswith(half.text)
            assert session.messages[-1].state in WHOLE
    finally:
        assembly.close()
