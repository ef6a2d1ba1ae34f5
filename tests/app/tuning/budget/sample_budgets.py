"""Budgets as a machine with a card of 12 GiB would have them."""

from __future__ import annotations

from app.tuning.budget.model import GIB, BudgetModel, MeasuredPoint
from engine.commands import Mode
from engine.events import PlanSummary
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import Accelerator, Host
from engine.machine.memory import DeviceMemory

MIB = 2**20
HOST = Host(cores=8, memory_total=32 * GIB, memory_available=24 * GIB)
CARD = Accelerator("cuda:0", "Sample card", memory_total=12 * GIB, memory_free=11 * GIB)
SIMULATED = Accelerator(
    "simulated:0", "Simulated", memory_total=12 * GIB, memory_free=12 * GIB, simulated=True
)


def memory(layers: int, of: int, each: int, draft_on_gpu: bool = False) -> tuple[DeviceMemory, ...]:
    """What so many layers on the card take."""
    draft = 400 * MIB
    cpu = DeviceMemory(
        "cpu",
        23 * GIB,
        target=(of - layers) * each + 600 * MIB,
        draft=0 if draft_on_gpu else draft,
        kv=(of - layers) * 20 * MIB,
        workspace=200 * MIB,
        features=30 * MIB,
    )
    if not layers and not draft_on_gpu:
        return (cpu,)
    card = DeviceMemory(
        "cuda:0",
        11 * GIB,
        target=layers * each,
        draft=draft if draft_on_gpu else 0,
        kv=layers * 20 * MIB,
        workspace=150 * MIB,
        runtime=500 * MIB,
    )
    return cpu, card


def point(
    layers: int,
    speed: float,
    mode: Mode = Mode.DUO,
    of: int = 40,
    each: int = 200 * MIB,
    draft_on_gpu: bool = False,
) -> CurvePoint:
    """A step of a curve."""
    held = memory(layers, of, each, draft_on_gpu)
    vram = held[1].total if len(held) > 1 else 0
    device = "cuda:0" if draft_on_gpu else "cpu"
    drafting = None if mode is Mode.PLAIN else device
    whole = layers == of
    return CurvePoint(vram, layers, mode, drafting, speed, speed / 1.6, held, head_on_gpu=whole)


def curve(mode: Mode, speeds: list[float], of: int = 40, knee: int | None = None) -> Curve:
    """One layer more at every step."""
    each = 9 * GIB // of
    came = Mode.DUO if mode is Mode.AUTO else mode
    points = tuple(point(n, speed, came, of, each) for n, speed in enumerate(speeds))
    at = points[len(points) * 4 // 5].vram if knee is None else knee
    return Curve(mode, points, 11 * GIB, at, of, 8192)


def speeds(layers: int, least: float, best: float) -> list[float]:
    """From none to all layers, faster and faster."""
    return [1 / (1 / least + (1 / best - 1 / least) * n / layers) for n in range(layers + 1)]


def auto(layers: int = 40) -> Curve:
    """Steep, and flat at the end."""
    rising = speeds(layers, 5.2, 19.0)
    top = rising[layers * 4 // 5]
    return curve(Mode.AUTO, [min(each, top + 0.001 * n) for n, each in enumerate(rising)], layers)


PRESENT = PlanSummary(
    Mode.DUO,
    "Sample card + CPU",
    "CPU",
    "small",
    8192,
    "",
    (),
    layers=40,
    layers_on_gpu=18,
    memory=memory(18, 40, 9 * GIB // 40),
)
MEASURED = (
    MeasuredPoint(round(4.9 * GIB), 8.9, Mode.DUO, "today, 14:02"),
    MeasuredPoint(round(6.3 * GIB), 10.1, Mode.DUO, "yesterday"),
    MeasuredPoint(0, 4.1, Mode.CPU, "yesterday"),
)


def model(layers: int = 40, others: int = round(1.3 * GIB), **more: object) -> BudgetModel:
    """All there is to show."""
    other_modes = (
        curve(Mode.DOVETAIL, speeds(layers, 4.6, 11.5), layers),
        Curve(Mode.CPU, (point(0, 5.2, Mode.CPU, layers),), 0, 0, layers, 8192),
        curve(Mode.PLAIN, speeds(layers, 3.1, 12.0), layers),
    )
    made = BudgetModel(HOST, (auto(layers), *other_modes), CARD, PRESENT, MEASURED, 0.15, others)
    return made if not more else _changed(made, more)


def _changed(made: BudgetModel, more: dict[str, object]) -> BudgetModel:
    values = {name: getattr(made, name) for name in made.__dataclass_fields__} | more
    return BudgetModel(**values)
