"""A model that does not fit, and other programs that take the graphics card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from app.showcase.scenes.shoot import Shoot, answer, new_chat
from app.showcase.script import MACHINE, MODEL_NAME, PLAN, sample
from app.showcase.stage import Stage, settle
from engine.commands import Load, Mode, WeightFormat
from engine.events import (
    AcceleratorSample,
    DeviceSample,
    Failed,
    FailureKind,
    MachineFound,
    PlanReady,
    PlanSummary,
    Previewed,
    WayOut,
)
from engine.machine.facts import CPU, Accelerator, Machine, Vendor
from engine.machine.memory import DeviceMemory, Holder, Shortage

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


_CARD = Accelerator("cuda:0", "NVIDIA GeForce RTX 4070", Vendor.NVIDIA, 12 * _GIB, 11 * _GIB)
_MACHINE = Machine(MACHINE.host, (_CARD,))


def _plan(nbytes: int, rate: float) -> PlanSummary:
    there = DeviceMemory(_CARD.device, 11 * _GIB, target=nbytes)
    return replace(
        PLAN,
        mode=Mode.DOVETAIL,
        memory=(DeviceMemory(CPU, 20 * _GIB, target=_GIB), there),
        tokens_per_s=rate,
    )


def _samples(others: float) -> list[DeviceSample]:
    """Ten seconds in which other programs hold so many GiB of the card."""
    used = round((others + 8.6) * _GIB)
    card = AcceleratorSample(
        _CARD.device,
        _CARD.name,
        memory_used=used,
        memory_ours=round(8.6 * _GIB),
        memory_total=_CARD.memory_total,
        holders=(Holder("Cyberpunk2077.exe", 4242, round((others - 0.5) * _GIB)),),
    )
    now = perf_counter()
    return [replace(sample(now + step, 9.0), accelerators=(card,)) for step in range(10)]


def game(stage: Stage, shoot: Shoot) -> None:
    """Show a game that takes the GPU during a chat, and gives it back."""
    new_chat(stage)
    load, plan = Load(Path("model")), _plan(round(8.6 * _GIB), 24.0)
    ready = PlanReady(perf_counter(), load.model, MODEL_NAME, plan, load)
    stage.tell(MachineFound(perf_counter(), _MACHINE), ready, _samples(0.5)[0])
    answer(stage, "What is a GGUF file?", "A model in a single file, weights and words together.")
    before = stage.preview
    smaller = _plan(round(5.1 * _GIB), 9.3)
    stage.preview = lambda load: Previewed(perf_counter(), load, _MACHINE, smaller)
    for each in _samples(6.2)[:8]:
        stage.tell(each)
    shoot("game-takes-the-card")
    stage.preview = before
    stage.window.banners.clear()
    stage.ready()


def too_large(stage: Stage, shoot: Shoot) -> None:
    """Show a 13B at 16 bit on a small machine, refused over a conversation that goes on."""
    new_chat(stage)
    stage.ready()
    answer(stage, "What is a GGUF file?", "A model in a single file, weights and words together.")
    stage.tell(_refused())
    settle()
    shoot("does-not-fit")
    stage.window.banners.clear()
    stage.ready()
