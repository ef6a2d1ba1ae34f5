"""Measuring the machine gives way to whatever is asked, and comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus, Phase
from app.showcase.script import PLAN
from app.tuning.first_calibration import measure_once
from engine.commands import Calibrate
from engine.events import AnswerStats, Calibrated, Finished, FinishReason, PlanReady

READY = PlanReady(0.0, Path("m"), "m", replace(PLAN, measured=False))
FINISHED = Finished(
    0.0, "a", FinishReason.STOP, "", (), AnswerStats(*(0,) * 7, (), (), None, None, None, 0.0), 0
)
CALLED_OFF = Calibrated(0.0, None)


class Events:
    """A bridge with its events by hand."""

    def __init__(self) -> None:
        self.status = EngineStatus(Phase.READY)
        self.asked = 0
        self._listeners: dict[type, Callable[[Any], None]] = {}
        measure_once(cast("EngineBridge", self))

    def subscribe(self, kind: type, listener: Callable[[Any], None]) -> None:
        self._listeners[kind] = listener

    def submit(self, command: object) -> None:
        assert command == Calibrate()
        self.asked += 1

    def come(self, event: object, phase: Phase = Phase.READY) -> None:
        self.status = EngineStatus(phase)
        self._listeners[type(event)](event)


@pytest.mark.parametrize(
    ("phase", "then", "times"),
    [
        (Phase.WAITING, FINISHED, 2),  # an answer went first
        (Phase.WRITING, FINISHED, 2),
        (Phase.LOADING, READY, 2),
        (Phase.READY, FINISHED, 1),  # the user does not want it
        (Phase.READY, READY, 1),
    ],
)
def test_what_something_else_has_called_off_comes_back(
    phase: Phase, then: object, times: int
) -> None:
    events = Events()
    events.come(READY)
    events.come(CALLED_OFF, phase)
    events.come(then)
    events.come(FINISHED)
    assert events.asked == times
