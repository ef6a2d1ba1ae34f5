"""Speeds of the machine: as they were kept, then as they are measured."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from desk import Desk

from app.performance.known_speeds import KnownSpeeds
from app.showcase import budgets
from engine.devices.kept_measurements import KeptSpeeds
from engine.events import Calibrated, MachineFound
from engine.machine.cores import default_threads


def test_kept_speeds_until_others_are_measured(desk: Desk) -> None:
    machine = budgets.WITH_CARD
    KeptSpeeds().keep(machine, default_threads(), budgets.SPEEDS)
    desk.tell(MachineFound(perf_counter(), machine))
    known = KnownSpeeds(desk.assembly.bridge)
    assert known.cores == machine.host.cores
    desk.bot.waitUntil(lambda: known.speeds == budgets.SPEEDS)
    assert known.threads == default_threads()
    measured = replace(budgets.SPEEDS, measured=not budgets.SPEEDS.measured)
    desk.tell(Calibrated(perf_counter(), measured))
    assert known.speeds == measured
    desk.tell(Calibrated(perf_counter(), None))
    assert known.speeds == measured
