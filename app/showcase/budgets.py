"""Invented answers of a scripted engine to previews: plans for every budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from app.showcase.script import MACHINE, PLAN
from engine.commands import DraftChoice, Load, Mode
from engine.devices.accelerators.adapter_checks import AdapterCheck, CheckedAdapter, CheckResult
from engine.devices.accelerators.webgpu_adapters import with_adapters
from engine.events import Failed, PlanSummary, Previewed
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import Accelerator, Host, Machine, PcieLink, Vendor
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

GIB, MIB = 2**30, 2**20
LAYERS = 28
_LAYER, _CACHE = 150 * MIB, 18 * MIB
"""Bytes of a layer's weights, and of its keys and values."""
_FIXED = 640 * MIB
"""Memory for the GPU's software and the workspace."""
SIMULATED = Accelerator(
    "simulated:0",
    "Simulated GPU",
    memory_total=8 * GIB,
    memory_free=7 * GIB,
    simulated=True,
)
CARD = Accelerator(
    "cuda:0",
    "NVIDIA GeForce RTX 3060",
    Vendor.NVIDIA,
    memory_total=8 * GIB,
    memory_free=7 * GIB,
    driver="580.82",
    architecture="8.6",
    link=PcieLink(1, 16, 4, 16),
)
UNUSABLE = Accelerator(
    "",
    "AMD Radeon RX 580",
    Vendor.AMD,
    memory_total=8 * GIB,
    unusable="this Duotail has no support for AMD's cards built in",
)
HOST = Host(
    cores=8,
    threads=16,
    memory_total=32 * GIB,
    memory_available=21 * GIB,
    name="AMD Ryzen 7 5800X",
    instruction_sets=("avx2", "fma", "f16c"),
    kernels="avx2",
)
SPEEDS = Speeds(
    {
        "cpu": DeviceSpeeds("cpu", 31e9, {"Q4_0": ProductSpeed((1, 4), (27e9, 24e9))}),
        "cuda:0": DeviceSpeeds("cuda:0", 322e9, {"Q4_0": ProductSpeed((1, 4), (260e9, 250e9))}),
        "simulated:0": DeviceSpeeds("simulated:0", 60e9, {"Q4_0": ProductSpeed((1,), (48e9,))}),
    },
    {"cuda:0": LinkSpeed("cuda:0", 12.6e9, 12.9e9, 8e-6)},
    measured=True,
)
WITHOUT_CARD = Machine(HOST)
WITH_CARD = Machine(HOST, (CARD,))
WITH_SIMULATED = Machine(HOST, (SIMULATED,))
WITH_UNUSABLE = Machine(HOST, (UNUSABLE,))
_ENDS = {
    Mode.AUTO: (6.4, 21.0),
    Mode.DOVETAIL: (6.4, 19.0),
    Mode.DUO: (4.8, 21.0),
    Mode.CPU: (5.9, 5.9),
    Mode.PLAIN: (4.1, 14.5),
}
"""Tokens per second without a layer on the accelerator, and with all of them."""


def many_cards() -> Machine:
    """Return a machine whose cards go through PyTorch, through WebGPU, or are not used."""
    passed, mesa = CheckResult.PASSED, "Vulkan Mesa 25.2"
    adapters = (
        CheckedAdapter(CARD.name, 0x10DE, "DiscreteGPU", "Vulkan NVIDIA 580.82", verdict=passed),
        CheckedAdapter(UNUSABLE.name, 0x1002, "DiscreteGPU", mesa, verdict=passed),
        CheckedAdapter(
            "Intel UHD Graphics 770", 0x8086, "IntegratedGPU", mesa, verdict=CheckResult.CRASHED
        ),
        CheckedAdapter("llvmpipe (LLVM 19.1)", 0x10005, "CPU", mesa),
    )
    check = AdapterCheck("", passed, adapters=adapters)
    return Machine(HOST, with_adapters((CARD, UNUSABLE), HOST, check))


def previewed(
    load: Load,
    machine: Machine = MACHINE,
    *,
    refusal: Failed | None = None,
    speeds: Speeds | None = None,
    draft: str | None = PLAN.draft,
) -> Previewed:
    """The answer to `Preview`: more layers are faster, up to a knee."""
    card = next(iter(machine.usable), None)
    modes = [mode for mode in _ENDS if card is not None or mode not in (Mode.DOVETAIL, Mode.DUO)]
    if load.draft in (DraftChoice.LOOKUP, DraftChoice.NONE) and Mode.DUO in modes:
        modes.remove(Mode.DUO)
    modes.sort(key=lambda mode: mode is not load.mode)
    context = load.context or 4096
    curves = tuple(_curve(mode, card, context) for mode in modes)
    plan = None if refusal is not None else plan_of(load, curves[0], card, draft, speeds)
    return Previewed(perf_counter(), load, machine, plan, curves, refusal, speeds)


def plan_of(
    load: Load,
    curve: Curve,
    card: Accelerator | None,
    draft: str | None = PLAN.draft,
    speeds: Speeds | None = None,
) -> PlanSummary:
    """The plan for the budget of a load."""
    point = curve.at(load.vram) or curve.points[0]
    kv = _CACHE * LAYERS * curve.context // 4096
    name = "CPU" if card is None else card.name
    reasons = (
        f"{point.layers_on_gpu} of {LAYERS} layers are on {name}, which is the fastest way.",
        "The draft is small, so the CPU has time for it.",
        "More memory would not make it noticeably faster.",
    )
    return replace(
        PLAN,
        mode=point.mode,
        target_device=name if point.layers_on_gpu else "CPU",
        draft=None if point.mode is Mode.PLAIN else draft,
        draft_device=None if point.mode is Mode.PLAIN else "CPU",
        context=curve.context,
        context_limit=32768,
        kv_bytes=kv,
        layers=LAYERS,
        layers_on_gpu=point.layers_on_gpu,
        tokens_per_s=point.tokens_per_s,
        memory=point.memory,
        knee=None if card is None else curve.knee,
        measured=speeds is not None and speeds.measured,
        reasons=reasons if card is not None else PLAN.reasons,
    )


def _curve(mode: Mode, card: Accelerator | None, context: int) -> Curve:
    slow, fast = _ENDS[mode]
    uses = card is not None and mode is not Mode.CPU
    steps = range(LAYERS + 1) if uses else range(1)
    limit = (card.memory_free or 0) if uses and card is not None else 0
    points = [_point(mode, layers, card, slow, fast, context) for layers in steps]
    points = [point for point in points if point.vram <= limit or not point.vram]
    knee = points[len(points) * 4 // 5].vram if uses else 0
    return Curve(mode, tuple(points), limit, knee, LAYERS, context)


def _point(
    mode: Mode, layers: int, card: Accelerator | None, slow: float, fast: float, context: int
) -> CurvePoint:
    cache = _CACHE * context // 4096
    rest = LAYERS - layers
    cpu = DeviceMemory(
        "cpu", 20 * GIB, target=rest * _LAYER, draft=300 * MIB, kv=rest * cache, workspace=90 * MIB
    )
    held = [cpu]
    if layers and card is not None:
        sizes = {"target": layers * _LAYER, "kv": layers * cache, "workspace": _FIXED // 2}
        held.append(DeviceMemory(card.device, 7 * GIB, runtime=_FIXED // 2, **sizes))
    share = layers / LAYERS
    speed = 1 / ((1 - share) / slow + share / fast)
    came = Mode.DOVETAIL if mode is Mode.AUTO else mode
    if card is None:
        came = Mode.PLAIN if mode is Mode.PLAIN else Mode.CPU
    drafting = None if came is Mode.PLAIN else "cpu"
    vram = sum(memory.total for memory in held[1:])
    return CurvePoint(vram, layers, came, drafting, speed, speed / 1.6, tuple(held))


def load_of() -> Load:
    """Return a load that asks for nothing in particular."""
    return Load(Path("models/seven-billion"))
