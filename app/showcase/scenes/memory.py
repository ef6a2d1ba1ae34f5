"""The line of memory at the bottom: before a model, with one, with a card, narrow; its details."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from app.shell.memory_detail import MemoryDialog
from app.showcase.scenes.shoot import Shoot
from app.showcase.script import sample
from app.showcase.stage import Stage, catch_up, settle
from engine.devices.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates
from engine.events import AcceleratorSample, DeviceHeld, DeviceSample, HeldLine, MemoryHeld
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory

_GIB, _MIB = 2**30, 2**20
_CARD = "NVIDIA GeForce RTX 4060"
_ON_CARD = DeviceMemory(
    *("cuda:0", 7 * _GIB, 3380 * _MIB, 620 * _MIB, 512 * _MIB, 310 * _MIB, 548 * _MIB)
)
_ON_HOST = DeviceMemory(CPU, 11 * _GIB, 1740 * _MIB, 0, 256 * _MIB, 41 * _MIB)


def strip(stage: Stage, shoot: Shoot) -> None:
    """Show the strip in every state, and at every width."""
    window = stage.window
    stage.tell(_sample(without=True))
    shoot("memory-no-model")
    stage.tell(_sample(), _held())
    shoot("memory-card")
    stage.tell(_sample(simulated=True), MemoryHeld(perf_counter(), ()))
    shoot("memory-simulated")
    stage.tell(_sample(), _held())
    size = window.size()
    for width in (1000, 700, 420):
        window.resize(width, size.height())
        catch_up()
        shoot(f"memory-{width}", window.memory)
    window.resize(size)
    dialog = MemoryDialog(window.memory, window, lambda: (_kept(),))
    dialog.show()
    catch_up()
    for _ in range(50):
        settle()
        if dialog.before.table.rows:
            break
        perf_counter()
    shoot("memory-detail", dialog)
    dialog.close()
    stage.tell(_sample(without=True), MemoryHeld(perf_counter(), ()))


def _sample(*, without: bool = False, simulated: bool = False) -> DeviceSample:
    base = replace(
        sample(perf_counter(), 12.0),
        memory_bytes=2600 * _MIB,
        memory_available_bytes=6 * _GIB,
    )
    if without:
        return replace(base, memory_bytes=310 * _MIB, memory_available_bytes=9 * _GIB)
    card = AcceleratorSample(
        *("cuda:0", _CARD, 61.0, 6300 * _MIB, 5400 * _MIB, 8 * _GIB),
    )
    if simulated:
        card = AcceleratorSample(
            *("simulated:0", "Simulated GPU", 0.0, 96 * _MIB, 96 * _MIB, 3 * _GIB),
            simulated=True,
        )
    return replace(base, accelerators=(card,))


def _held() -> MemoryHeld:
    card = (
        HeldLine("target", "weights", 3381 * _MIB, 3381 * _MIB),
        HeldLine("draft", "weights", 620 * _MIB, 620 * _MIB),
        HeldLine("target", "kv", 448 * _MIB, 448 * _MIB),
        HeldLine("draft", "kv", 64 * _MIB, 64 * _MIB),
        HeldLine("target", "workspace", 327 * _MIB, 327 * _MIB),
        HeldLine("device", "runtime", 548 * _MIB, 548 * _MIB),
    )
    host = (
        HeldLine("target", "weights", 1740 * _MIB, 1740 * _MIB),
        HeldLine("target", "kv", 512 * _MIB, 180 * _MIB),
        HeldLine("target", "workspace", 39 * _MIB, 39 * _MIB),
    )
    devices = (
        DeviceHeld(CPU, 11 * _GIB, host, _ON_HOST),
        DeviceHeld("cuda:0", 7 * _GIB, card, _ON_CARD),
    )
    return MemoryHeld(perf_counter(), devices, 0.008)


def _kept() -> ModelEstimates:
    more = replace(_ON_CARD, workspace=327 * _MIB)
    card = DeviceEstimate("cuda:0", "1", _CARD, _ON_CARD, more, more.total, 5400 * _MIB)
    host = DeviceEstimate(CPU, CPU, "CPU", _ON_HOST, _ON_HOST, _ON_HOST.total, 2100 * _MIB)
    loads = tuple(
        LoadEstimate(1_790_000_000.0 - 86_400 * place, "dovetail", 8192, (host, card), 4, 900)
        for place in range(3)
    )
    return ModelEstimates("0", "Qwen3 8B", "Qwen3 0.6B", "Q4_K_M", loads)
