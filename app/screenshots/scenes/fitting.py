"""A model that does not fit, and other programs that take the graphics card."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from app.screenshots.scenes.shoot import Shoot, answer, new_chat
from app.screenshots.stage import Stage, settle
from engine.commands import Load, WeightFormat
from engine.events import Failed, FailureKind, WayOut
from engine.plan.machine import CPU
from engine.plan.plan import DeviceMemory
from engine.plan.shortage import Holder, Shortage

_GIB = 2**30
_MODEL = Path("llama-2-13b-chat.f16.gguf")


def _refused() -> Failed:
    needed = DeviceMemory(CPU, 0, target=26_031_000_000, kv=262_144_000, workspace=46_195_000)
    holders = (
        Holder("firefox", 4711, round(2.9 * _GIB)),
        Holder("code", 815, round(1.3 * _GIB)),
        Holder("steam", 42, round(0.7 * _GIB)),
    )
    ways = (
        WayOut("8-bit weights", Load(_MODEL, weights=WeightFormat.Q8), 2.84),
        WayOut("4-bit weights", Load(_MODEL, weights=WeightFormat.Q4), 5.1),
        WayOut(
            "Context of 2,048 tokens, 8-bit weights",
            Load(_MODEL, weights=WeightFormat.Q8, context=2048),
            2.9,
        ),
    )
    return Failed(
        perf_counter(),
        None,
        "llama-2-13b-chat.f16 needs 25.0 GiB of memory here, and 15.2 GiB are free.",
        "In the format q4_0 it would take about 6.8 GiB; or choose a smaller model.",
        kind=FailureKind.OUT_OF_MEMORY,
        shortage=Shortage(CPU, "Memory", needed, round(14.7 * _GIB), holders),
        ways_out=ways,
    )


def too_large(stage: Stage, shoot: Shoot) -> None:
    """A 13B at 16 bit on a small machine, refused over a conversation that goes on."""
    new_chat(stage)
    stage.ready()
    answer(stage, "What is a GGUF file?", "A model in a single file, weights and words together.")
    stage.tell(_refused())
    settle()
    shoot("does-not-fit")
    stage.window.chat.banners.clear()
    stage.ready()
