"""Duotail's own calibration, kept for the steps behind it, and what the planner makes of it."""

from __future__ import annotations

from typing import Any

from card.models import model_of
from card.steps import SHAPES, Check


def run(check: Check) -> None:
    """Calibrate, then plan every shape as measured."""
    from engine.loading.devices import DeviceManager
    from engine.typed_json import encoded

    manager = DeviceManager()
    machine = manager.look(adapters=True)
    speeds = manager.measure_all(machine, lambda _stage, _share: None, lambda: False)
    check.emit("speeds", speeds=encoded(speeds))
    said = []
    for shape in SHAPES:
        for found in machine.accelerators:
            if not found.device or (found.unusable and not found.by_name):
                continue
            told = _planned(check, manager, found.device, shape)
            check.emit("plan", shape=shape, device=found.device, **told)
            if "tokens_per_s" in told:
                said.append(f"{shape} on {found.device} {told['tokens_per_s']:.0f}/s")
    check.say("planned " + (", ".join(said) or "nothing on a card"))


def _planned(check: Check, manager: Any, device: str, shape: str) -> dict[str, Any]:  # noqa: ANN401
    from engine.bench.random_model import RandomPair, random_draft
    from engine.bench.shape_answers import ShapeOptions
    from engine.bench.shape_speed import Placing, plan_models
    from engine.cli.plan_report import plan_report
    from engine.commands import ALL_LAYERS, Mode
    from engine.errors import UserFixable

    machine = manager.look(device=device)
    target = model_of(check, shape, "q4_k_m")
    pair = RandomPair(target, random_draft(target, "small"))
    known = machine, manager.speeds(machine)
    placing = Placing(Mode.PLAIN, layers_on_gpu=ALL_LAYERS)
    try:
        return plan_report(plan_models(known, pair, placing, ShapeOptions(mode=Mode.PLAIN)))
    except UserFixable as error:
        return {"refused": str(error)}
