"""Models: choosing one, loading it, what is said about it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from app.models.choice import Installed
from app.models.file_chooser import FileChooser
from app.notices import report
from app.showcase.scenes.shoot import Shoot, answer, menu, new_chat
from app.showcase.script import PLAN
from app.showcase.stage import Stage, catch_up, settle
from engine.commands import Mode
from engine.errors import UserFixable
from engine.events import LoadProgress, PlanReady, Unloaded
from engine.model.model_files import SeveralModels

_QWEN = "Qwen2.5 1.5B Instruct"
_FILES = ("Q4_K_M", "Q5_K_M", "Q8_0")
_CAVEAT = (
    "Duotail has no decoder of its own for “stablelm” models: StableLM 2 1.6B runs through the "
    "transformers library, without drafting, and the same seed may give another answer."
)


def choosing(stage: Stage, shoot: Shoot) -> None:
    """The menu with models of several kinds, a folder with several, a file that is none."""
    window, choice = stage.window, stage.assembly.models
    before = choice.models
    choice.models = [
        *before,
        Installed(Path("qwen.gguf"), _QWEN, "Q4_K_M", 1_117_320_576),
        Installed(Path("stablelm"), "StableLM 2 1.6B", "BF16", 3_289_000_000),
    ]
    menu(shoot, "model-menu-gguf", window.model_button.make_menu())
    choice.models = before
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"qwen2.5-1.5b-instruct-{kind}.gguf" for kind in _FILES]
        for size, file in enumerate(files, 30):
            file.write_bytes(b"GGUF")
            with file.open("r+b") as stream:
                stream.truncate(size << 20)
        chooser = FileChooser(SeveralModels(Path(folder), tuple(files)).sizes, window)
        chooser.open()
        settle()
        shoot("choose-file", chooser)
        chooser.close()
    report(
        UserFixable(
            "qwen2.5-1.5b-instruct-q4_k_m.gguf is incomplete: 734003200 of 1117320736 bytes.",
            "Finish or repeat the download.",
            "qwen2.5-1.5b-instruct-q4_k_m.gguf",
        )
    )
    catch_up()
    shoot("model-error")
    window.banners.clear()


def loading(stage: Stage, shoot: Shoot) -> None:
    """Show a load with its progress, over an empty chat and over a conversation."""
    progress = LoadProgress(0.0, f"Loading {_QWEN}", 0.43)
    new_chat(stage)
    stage.tell(Unloaded(0.0), progress)
    shoot("loading-gguf")
    stage.ready()
    answer(stage, "What is a GGUF file?", "A model in a single file, weights and words together.")
    stage.tell(progress)
    shoot("loading-in-conversation")
    plan = replace(PLAN, draft="lookup", signature="cpu:q4_k+q6_k/kv-f16")
    stage.tell(PlanReady(perf_counter(), Path("qwen.gguf"), _QWEN, plan))
    catch_up()
    shoot("gguf-ready")


def another_family(stage: Stage, shoot: Shoot) -> None:
    """Show a model that runs through transformers, with its caveat."""
    new_chat(stage)
    plan = replace(
        PLAN, mode=Mode.PLAIN, draft=None, draft_device=None, caveat=_CAVEAT, reasons=(_CAVEAT,)
    )
    stage.tell(PlanReady(perf_counter(), Path("stablelm"), "StableLM 2 1.6B", plan))
    catch_up()
    shoot("other-family")
    stage.window.banners.clear()
    stage.ready()
