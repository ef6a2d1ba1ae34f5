"""The first start, and windows of unusual shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.screenshots.scenes.shoot import Shoot
from app.screenshots.script import MACHINE, MODEL_NAME, PLAN, sample
from app.screenshots.stage import Stage, catch_up
from engine.commands import Mode
from engine.events import (
    Calibrated,
    CalibrationProgress,
    LoadProgress,
    MachineFound,
    PlanReady,
)
from engine.plan.machine import Accelerator

_LAYERS = 8


def first_start(stage: Stage, shoot: Shoot) -> None:
    """From an empty window to one that is ready."""
    window = stage.window
    shoot("preparing")
    window.performance.hide()
    stage.assembly.start(lambda: Path("model"))
    stage.tell(sample(0.0, 3.0), LoadProgress(0.0, "Loading SmolLM2 135M", 0.62))
    shoot("loading")
    stage.ready()
    window.performance.show()
    shoot("first-start")
    window.performance.hide()
    stage.tell(CalibrationProgress(0.0, "Reading memory", 0.4))
    shoot("measuring")
    stage.tell(Calibrated(0.0, None))
    _on_accelerators(stage, shoot)


def _on_accelerators(stage: Stage, shoot: Shoot) -> None:
    """A split target, on a simulated accelerator and on a real one; a card that cannot be used."""
    simulated = Accelerator(
        "simulated:0", "Simulated accelerator", memory_total=4 * 2**30, simulated=True
    )
    real = Accelerator("cuda:0", "NVIDIA GeForce RTX 4060 Laptop", memory_total=8 * 2**30)
    old = Accelerator(
        "",
        "AMD Radeon RX 580",
        unusable="the PyTorch installed here is built for accelerators of NVIDIA",
    )
    for found, layers in (((simulated,), 3), ((real, old), _LAYERS), ((old,), 0)):
        devices = [found[0].name] if layers else []
        devices += ["CPU"] if layers < _LAYERS else []
        plan = replace(
            PLAN,
            mode=Mode.DOVETAIL if layers else Mode.CPU,
            target_device=" + ".join(devices),
            layers=_LAYERS,
            layers_on_gpu=layers,
        )
        stage.tell(
            MachineFound(0.0, replace(MACHINE, accelerators=found)),
            PlanReady(0.0, Path("model"), MODEL_NAME, plan),
        )
        shoot(f"{layers}-layers-on-gpu")
    stage.ready()


def narrow(stage: Stage, shoot: Shoot) -> None:
    """Half the screen for something else, and the smallest window there is."""
    window = stage.window
    size = window.size()
    window.resize(560, 800)
    stage.assembly.session.open(stage.assembly.session.conversations.newest_first()[0])
    catch_up()
    shoot("narrow")
    window.resize(window.minimumSize())
    catch_up()
    shoot("smallest")
    window.resize(size)


def large_text(stage: Stage, shoot: Shoot) -> None:
    """For eyes that need it."""
    settings = stage.assembly.settings
    settings.change(font_scale=1.6)
    catch_up()
    shoot("large-text")
    settings.change(font_scale=1.0)
    catch_up()
