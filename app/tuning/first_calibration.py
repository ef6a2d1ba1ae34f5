"""A machine that never was is measured at the first start, as long as nothing is asked."""

from __future__ import annotations

from app.engine_link.bridge import EngineBridge
from app.engine_link.status import Phase
from engine.commands import Calibrate
from engine.events import Calibrated, Finished, PlanReady


def measure_once(bridge: EngineBridge) -> None:
    """Ask for it with the first plan that rests on assumptions; whatever is asked goes first.

    What an answer or a load has called off is asked for again after it; what the user called off
    is not.
    """
    asked = displaced = False

    def ready(event: PlanReady) -> None:
        nonlocal asked
        if not event.plan.measured and (not asked or displaced):
            asked = True
            ask()

    def finished(_: Finished) -> None:
        if displaced:
            ask()

    def ask() -> None:
        nonlocal displaced
        displaced = False
        bridge.submit(Calibrate())

    def ended(event: Calibrated) -> None:
        nonlocal displaced
        status = bridge.status
        displaced = event.speeds is None and (status.busy or status.phase is Phase.LOADING)

    bridge.subscribe(PlanReady, ready)
    bridge.subscribe(Finished, finished)
    bridge.subscribe(Calibrated, ended)
