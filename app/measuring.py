"""A machine that never was is measured at the first start, as long as nothing is asked."""

from __future__ import annotations

from app.bridge import EngineBridge
from engine.commands import Calibrate
from engine.events import PlanReady


def measure_once(bridge: EngineBridge) -> None:
    """Ask for it with the first plan that rests on assumptions; whatever is asked goes first."""
    asked = False

    def ready(event: PlanReady) -> None:
        nonlocal asked
        if not event.plan.measured and not asked:
            asked = True
            bridge.submit(Calibrate())

    bridge.subscribe(PlanReady, ready)
