"""The first start, and windows of unusual shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.engine_link.status import Phase
from app.showcase.scenes.shoot import Shoot
from app.showcase.script import MACHINE, MODEL_NAME, PLAN, sample
from app.showcase.stage import Stage, catch_up, wait_for
from engine.commands import Mode
from engine.events import (
    Calibrated,
    CalibrationProgress,
    LoadProgress,
    MachineFound,
    PlanReady,
)
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.remote.faults import Fault
from engine.hub.starter import starter_job
from engine.machine.facts import Accelerator

_LAYERS = 8


def first_start(stage: Stage, shoot: Shoot) -> None:
    """Show the start, from an empty window to one that is ready."""
    window = stage.window
    shoot("preparing")
    window.performance.hide()
    _welcome(stage, shoot)
    _without_model(stage, shoot)
    stage.assembly.models.load(Path("model"))
    wait_for(lambda: stage.assembly.bridge.status.phase is Phase.LOADING)
    stage.tell(sample(0.0, 3.0), LoadProgress(0.0, f"Loading {MODEL_NAME}", 0.62))
    shoot("loading")
    stage.ready()
    window.performance.show()
    shoot("first-start")
    window.performance.hide()
    stage.tell(CalibrationProgress(0.0, "Reading memory", 0.4))
    shoot("measuring")
    stage.tell(Calibrated(0.0, None))
    _on_accelerators(stage, shoot)


def _welcome(stage: Stage, shoot: Shoot) -> None:
    """The very first start of an installed Duotail, without a model and with one."""
    stage.assembly.settings.change(first_start=True)
    stage.assembly.welcome()
    stage.assembly.start(lambda: None)
    wait_for(lambda: stage.assembly.bridge.status.phase is Phase.NO_MODEL)
    shoot("welcome-offer")
    stage.ready()
    shoot("welcome")
    stage.assembly.settings.change(first_start=False)
    catch_up()


def _without_model(stage: Stage, shoot: Shoot) -> None:
    """The starter model is offered, comes, and cannot come without a network."""
    job, hub, offer = starter_job(), stage.hub_script, stage.window.starter_offer
    stage.assembly.start(lambda: None)
    wait_for(lambda: stage.assembly.bridge.status.phase is Phase.NO_MODEL)
    shoot("offer")
    coming = JobReport(job, JobState.FETCHING, 41_300_000, 6_200_000.0, 9.0)
    hub.bring = lambda _job: coming
    offer.fetch_button.click()
    wait_for(lambda: offer.row is not None)
    shoot("downloading")
    stage.scripted_hub.tell(
        JobReport(
            job,
            JobState.WAITING,
            cause="huggingface.co cannot be reached. pypi.org cannot be reached.",
            remedy="Check your network connection, and the proxy in the settings if you use one.",
            fault=Fault.OFFLINE,
        )
    )
    wait_for(lambda: offer.row is not None and offer.row.again_button.isVisible())
    shoot("no-network")
    stage.scripted_hub.tell()
    wait_for(lambda: offer.row is None)
    hub.bring = None


def _on_accelerators(stage: Stage, shoot: Shoot) -> None:
    """A split target, on a simulated accelerator and on a real one; a card that cannot be used."""
    simulated = Accelerator("simulated:0", "Simulated GPU", memory_total=4 * 2**30, simulated=True)
    real = Accelerator("cuda:0", "NVIDIA GeForce RTX 4060 Laptop", memory_total=8 * 2**30)
    old = Accelerator(
        "",
        "AMD Radeon RX 580",
        unusable="the PyTorch installed here is built for NVIDIA GPUs",
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
    """Show large text, for eyes that need it."""
    settings = stage.assembly.settings
    settings.change(font_scale=1.6)
    catch_up()
    shoot("large-text")
    settings.change(font_scale=1.0)
    catch_up()
