"""Devices that a load has opened, and what the system gets back when it goes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from engine.backend.device import Device
from engine.backend.ledger import Ledger
from engine.backend.segment import Share
from engine.machine.facts import Machine
from engine.plan.plan import Plan

_log = logging.getLogger(__name__)

Devices = Mapping[str, Device]
"""By name; the CPU is always among them."""

OpenDevices = Callable[[Machine, Plan], Devices]


def whole(layers: int, device: str) -> tuple[Share, ...]:
    """A model in one piece."""
    return (Share(device, range(layers), embeds=True, heads=True),)


def close(devices: Devices) -> None:
    """Give back what the devices themselves hold; what lay on them has to be forgotten before."""
    for device in devices.values():
        try:
            device.close()
        except Exception:  # noqa: BLE001 - a lost device has nothing to give
            _log.warning("%s was not closed", device.name, exc_info=True)


def coming_back(ledger: Ledger) -> int:
    """Bytes that the system counts as available again when everything in a ledger goes.

    Weights mapped from files are not in it: the system counts their memory as available anyway.
    """
    return sum(line.touched - line.mapped for line in ledger.lines())
