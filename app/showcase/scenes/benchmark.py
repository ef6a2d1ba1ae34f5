"""The benchmark page: before, while it measures, with a result, out of date, refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from app.shell.page_names import PageName
from app.showcase.scenes.shoot import Shoot, narrow, new_chat
from app.showcase.script import MACHINE, MODEL_NAME, PLAN
from app.showcase.stage import Stage, catch_up
from engine.commands import Load, Mode
from engine.events import (
    Compared,
    CompareProgress,
    MachineFound,
    ModeRun,
    PlanReady,
    PlanSummary,
    Previewed,
)
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import Accelerator
from engine.machine.memory import DeviceMemory

_GIB = 1 << 30
_MODEL = Path("model")
_CARD = Accelerator("cuda:0", "NVIDIA GeForce RTX 4060 Laptop GPU", memory_total=8 * _GIB)
_SIMULATED = Accelerator("simulated:0", "Simulated GPU", memory_total=8 * _GIB, simulated=True)
_SPEEDS = {
    Mode.AUTO: (17.4, 14.9, 20.2, 0.41, 3.1, 5.4),
    Mode.DUO: (22.8, 19.6, 26.3, 0.40, 3.9, 6.9),
    Mode.CPU: (8.9, 7.7, 10.8, 1.62, 2.7, 0.0),
    Mode.PLAIN: (11.2, 11.0, 11.3, 0.39, None, 5.1),
}
_ALIKE = ModeRun(Mode.DOVETAIL, PLAN, same_as=Mode.AUTO)


def benchmark(stage: Stage, shoot: Shoot) -> None:
    """Show the page from the first look to a result that says little about today."""
    new_chat(stage)
    _found(stage, _CARD)
    curves = tuple(map(_curve, _SPEEDS))
    stage.preview = lambda load: Previewed(perf_counter(), load, MACHINE, PLAN, curves)
    stage.window.pages.open(PageName.BENCHMARK)
    page = stage.window.pages.page(PageName.BENCHMARK)
    stage.tell()
    catch_up()
    shoot("benchmark-before")
    page.measure_button.click()  # type: ignore[attr-defined]
    done = [_run(Mode.AUTO), _run(Mode.PLAIN)]
    first = (done[0], ModeRun(Mode.DUO, PLAN), _ALIKE, ModeRun(Mode.CPU, PLAN), done[1])
    stage.tell(CompareProgress(0.0, Mode.DUO, 0.36, first, loading=True))
    catch_up()
    shoot("benchmark-running")
    _end(stage, tuple(_run(mode) for mode in _SPEEDS))
    shoot("benchmark-done")
    narrow(stage, shoot, "benchmark-narrow")
    _found(stage, _SIMULATED)
    shoot("benchmark-stale")
    page.measure_button.click()  # type: ignore[attr-defined]
    refused = "The simulated accelerator has 1.9 GiB free and 2.4 GiB are needed."
    runs = (
        _run(Mode.AUTO),
        ModeRun(Mode.DUO, None, refusal=refused),
        _run(Mode.CPU),
        _run(Mode.PLAIN),
    )
    _end(stage, runs, Mode.AUTO)
    shoot("benchmark-refusal")
    stage.window.pages.show_chat()
    stage.ready()


def _found(stage: Stage, card: Accelerator) -> None:
    """Find a machine with this GPU, and load the model on it."""
    load = replace(stage.assembly.bridge.status.wanted or Load(_MODEL), mode=Mode.AUTO)
    machine = replace(MACHINE, host=replace(MACHINE.host, name="AMD Ryzen 7 7840HS"))
    found = MachineFound(perf_counter(), replace(machine, accelerators=(card,)))
    stage.tell(found, PlanReady(perf_counter(), _MODEL, MODEL_NAME, _plan(Mode.AUTO), load))
    catch_up()


def _end(stage: Stage, runs: tuple[ModeRun, ...], winner: Mode = Mode.DUO) -> None:
    """End the benchmark, with the winner loaded."""
    every = (*runs[:2], _ALIKE, *runs[2:])
    stage.tell(CompareProgress(0.0, Mode.CPU, 0.98, every))
    stage.tell(Compared(perf_counter(), _MODEL, every, complete=True, winner=winner))
    load = replace(stage.assembly.bridge.status.wanted or Load(_MODEL), mode=winner)
    stage.tell(PlanReady(perf_counter(), _MODEL, MODEL_NAME, _plan(winner), load))
    catch_up()


def _run(mode: Mode) -> ModeRun:
    speed, lowest, highest, wait, length, _ = _SPEEDS[mode]
    return ModeRun(mode, _plan(mode), 8, speed, lowest, highest, wait, length)


def _plan(mode: Mode) -> PlanSummary:
    held = round(_SPEEDS[mode][5] * _GIB)
    memory = (DeviceMemory("cpu", _GIB), DeviceMemory("cuda:0", held, target=held))
    return replace(
        PLAN,
        mode=Mode.DOVETAIL if mode is Mode.AUTO else mode,
        signature="cuda:q4/kv-f16",
        memory=memory,
    )


def _curve(mode: Mode) -> Curve:
    speed = _SPEEDS[mode][0]
    point = CurvePoint(0, 0, mode, None, speed, speed, ())
    return Curve(mode, (point,), 0, 0, 8, 4096)
