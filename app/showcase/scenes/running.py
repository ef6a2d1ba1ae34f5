"""Scenes of the panel on how the model runs: several machines, a head as the draft, failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from app.chat.messages.answer_details import AnswerDetails
from app.notices import report
from app.performance.panel import PerformancePanel
from app.settings.profiles import ModelProfile
from app.showcase.lanes import answer_stats
from app.showcase.scenes.shoot import Shoot, answer, new_chat
from app.showcase.script import MACHINE, MODEL_NAME, PLAN, words
from app.showcase.stage import Stage, catch_up, settle
from app.widgets.table_dialog import TableDialog
from engine.commands import Load, Mode
from engine.errors import UserFixable
from engine.events import MachineFound, PlanReady, PlanSummary
from engine.machine.facts import Accelerator, Machine

_MODEL = Path("model")
_HEAD = Path("heads/smollm2-135m-dgf-2")
_LONG_HEAD = Path("heads/رأس مسودة للنموذج Llama-3.3-70B-Instruct-EAGLE3-trained-on-UltraChat-200k")
_SIMULATED = Accelerator("simulated:0", "Simulated GPU", memory_total=4 * 2**30, simulated=True)
_CARD = Accelerator("cuda:0", "NVIDIA GeForce RTX 4060 Laptop GPU", memory_total=8 * 2**30)
_OLD = Accelerator(
    "",
    "AMD Radeon RX 580",
    unusable="the PyTorch installed here is built for NVIDIA GPUs",
)
_DUO = replace(
    PLAN,
    mode=Mode.DUO,
    target_device="Simulated GPU",
    layers=8,
    layers_on_gpu=8,
)
_LANES = (
    "The draft runs on the CPU and the model on the graphics card. While the card checks one "
    "guess, the CPU already guesses what comes after it. When the check agrees, the next guess "
    "is there at once; when it does not, the draft begins anew at the right word."
)
_DOVETAIL = replace(
    PLAN,
    mode=Mode.DOVETAIL,
    target_device="Simulated GPU + CPU",
    draft_device="Simulated GPU",
    draft="SmolLM2 135M DGF head",
    draft_is_head=True,
    layers=8,
    layers_on_gpu=3,
    knee=1_181_116_006,
)


def panel(stage: Stage, shoot: Shoot) -> None:
    """Show the panel without a GPU, with an unusable one, a simulated one, a real one.

    An answer that is being written goes on while something else is chosen.
    """
    new_chat(stage)
    popup = stage.window.run_button.panel

    def picture(name: str, wish: ModelProfile | None = None) -> None:
        stage.window.run_button.open_panel()
        if wish is not None:
            popup.choosing.take(wish)
        settle()
        shoot(name, popup)
        popup.hide()

    _run(stage, PLAN, Load(_MODEL))
    picture("run-panel-cpu")
    _run(stage, PLAN, Load(_MODEL), replace(MACHINE, accelerators=(_OLD,)))
    picture("run-panel-old-card")
    _dovetail(stage, _SIMULATED, _DOVETAIL)
    shoot("dovetail-simulated")
    picture("run-panel-dovetail")
    _real(stage)
    shoot("dovetail-card")
    wish = ModelProfile(Mode.CPU, _LONG_HEAD, 5 * 2**30)
    picture("run-panel-cpu-only", wish)
    picture("run-panel-alone", replace(wish, mode=Mode.PLAIN))
    _while_writing(stage, shoot, picture)
    stage.ready()


def _real(stage: Stage) -> None:
    plan = replace(
        _DOVETAIL,
        target_device=f"{_CARD.name} + CPU",
        draft_device=_CARD.name,
        draft="Llama 3.2 1B EAGLE-3",
        layers=36,
        layers_on_gpu=21,
    )
    _dovetail(stage, _CARD, plan)


def _while_writing(stage: Stage, shoot: Shoot, picture: Callable[..., None]) -> None:
    session, running = stage.assembly.session, stage.assembly.models.running
    text = "The draft sits on the card, the model on the CPU, and what they agree on is kept. "
    session.send("What does Dovetail do?")
    stage.stream(text * 6)
    picture("run-panel-writing", ModelProfile(Mode.CPU))
    running.apply(ModelProfile(Mode.CPU))
    catch_up()
    shoot("change-waits")
    stage.finish(text * 6)
    stage.window.banners.clear()
    stage.tell(PlanReady(perf_counter(), _MODEL, MODEL_NAME, PLAN, Load(_MODEL)))


def troubles(stage: Stage, shoot: Shoot) -> None:
    """A head of another model, a checkpoint of a kind that is never read; the numbers of Dovetail.

    The sentences are examples; the engine has its own.
    """
    new_chat(stage)
    _dovetail(stage, _SIMULATED, _DOVETAIL)
    stage.mode = Mode.DOVETAIL
    answer(stage, "Tell me a story.", "Once upon a time, a small model guessed. " * 8)
    shoot("dovetail-answer")
    details = AnswerDetails(stage.assembly.session.messages[-1], stage.window)
    details.open()
    settle()
    shoot("dovetail-numbers", details)
    details.close()
    stage.mode = Mode.CPU
    report(
        UserFixable(
            "eagle3-llama-3.1-8b cannot draft for SmolLM2 135M: it was trained for a model with "
            "hidden states of 4096 numbers, and this one has 256.",
            "Choose a head that was trained for SmolLM2 135M, or train one: duotail train-draft.",
            "eagle3-llama-3.1-8b",
        )
    )
    catch_up()
    shoot("draft-error")
    stage.window.banners.clear()
    stage.ready()


def side_by_side(stage: Stage, shoot: Shoot) -> None:
    """DuoDecoding: while both lanes work, when it is done, and its numbers."""
    new_chat(stage)
    window, session = stage.window, stage.assembly.session
    load = Load(_MODEL, mode=Mode.DUO)
    _run(stage, _DUO, load, replace(MACHINE, accelerators=(_SIMULATED,)))
    window.run_button.open_panel()
    settle()
    shoot("run-panel-duo", window.run_button.panel)
    window.run_button.panel.hide()
    panel = window.performance
    assert isinstance(panel, PerformancePanel)  # noqa: S101 - the window takes any widget
    session.send("How can a draft and a model work at the same time?")
    text = " ".join([_LANES] * 3)
    took = stage.stream_side_by_side(text)
    panel.show()
    catch_up()
    shoot("duo-live")
    table = panel.board.timeline.table()
    panel.hide()
    stage.finish(text, account=answer_stats(len(words(text)), took))
    panel.show()
    catch_up()
    shoot("duo")
    for opened in (
        TableDialog(table, window),
        AnswerDetails(session.messages[-1], window),
    ):
        opened.open()
        settle()
        shoot("duo-rounds" if isinstance(opened, TableDialog) else "duo-numbers", opened)
        opened.close()
    panel.hide()
    stage.ready()


def _run(stage: Stage, plan: PlanSummary, load: Load, machine: Machine = MACHINE) -> None:
    found = MachineFound(perf_counter(), machine)
    stage.tell(found, PlanReady(perf_counter(), _MODEL, MODEL_NAME, plan, load))


def _dovetail(stage: Stage, card: Accelerator, plan: PlanSummary) -> None:
    load = Load(_MODEL, draft=_HEAD, mode=Mode.DOVETAIL, vram=3 * 2**30)
    _run(stage, plan, load, replace(MACHINE, accelerators=(card,)))
