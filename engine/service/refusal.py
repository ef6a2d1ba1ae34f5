"""Refusals of loads: what is missing, who holds it, what would fit instead."""

from __future__ import annotations

from dataclasses import replace

from engine.devices.accelerators.nvml import holders_on_card
from engine.devices.holders import holders_on_host, simulated_holder
from engine.errors import OutOfMemory, failed
from engine.events import Failed
from engine.loading.planned_load import PlannedLoad, loads_that_fit
from engine.machine.facts import CPU, Machine
from engine.machine.memory import Holder
from engine.machine.speeds import Speeds

_TOO_MUCH = 0.9
"""Most to plan on the device that was short, as a share of the failed load's plan."""


def refused(error: BaseException, machine: Machine | None) -> Failed:
    """Return a load's failure in words, with the programs that hold what is missing.

    Args:
        error: what came up.
        machine: as it was seen for the load; None where it was not yet looked at.
    """
    told = failed(error, None, loading=True)
    lacking = told.shortage
    if lacking is None or machine is None:
        return told
    return replace(told, shortage=replace(lacking, holders=_holders(lacking.device, machine)))


def look_for_ways_out(
    error: OutOfMemory, planned: PlannedLoad, machine: Machine, speeds: Speeds
) -> None:
    """Look for loads that fit, after one has failed that should have: with less of what was short.

    Args:
        error: what came up; takes what is found.
        planned: what was being loaded.
        machine: as it is now, the memory of the present model counted as free.
        speeds: of it.
    """
    short = error.shortage.device if error.shortage is not None else CPU
    most = round(planned.plan.on(short).total * _TOO_MUCH)
    inspection = replace(planned.inspection, machine=_with_less(machine, short, most))
    error.ways_out = loads_that_fit(inspection, speeds)


def _with_less(machine: Machine, device: str, most: int) -> Machine:
    """The machine with at most so many bytes free on a device."""
    host = machine.host
    if device == CPU:
        free = min(host.memory_available, most)
        return replace(machine, host=replace(host, memory_available=free))
    return replace(
        machine,
        accelerators=tuple(
            replace(each, memory_free=min(each.memory_free or 0, most))
            if each.device == device
            else each
            for each in machine.accelerators
        ),
    )


def _holders(device: str, machine: Machine) -> tuple[Holder, ...]:
    if device == CPU:
        return holders_on_host()
    found = next((each for each in machine.accelerators if each.device == device), None)
    if found is None:
        return ()
    return (
        simulated_holder(found.memory_of_others or 0) if found.simulated else holders_on_card(found)
    )
