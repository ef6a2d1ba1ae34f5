"""What is here."""

from __future__ import annotations

from collections.abc import Sequence

from engine.hardware.host import probe_host
from engine.plan.machine import Accelerator, Machine

__all__ = ["probe_host", "probe_machine"]


def probe_machine(simulated: Sequence[Accelerator] = ()) -> Machine:
    """Ask the system and its drivers, after which `simulated` accelerators are listed."""
    return Machine(probe_host(), tuple(simulated))
