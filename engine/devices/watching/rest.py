"""When a card may be asked what it is doing without keeping it awake.

A laptop's second graphics processor switches itself off some seconds after its last user. Asking
its driver wakes it, and an open driver keeps it from sleeping, which costs hours of battery. The
kernel's own files about power do neither. So a card that can sleep is asked all the time only while
we compute on it ourselves; asleep, never; awake for somebody else, once a minute, after which the
driver is let go of, so that the card can settle in between.
"""

from __future__ import annotations

from engine.devices.accelerators.pci_gpus import DEVICES
from engine.language import tr
from engine.machine.system_files import SystemFiles

PAUSE_S = 60.0
"""Drivers switch a card off after some ten seconds without a question."""


def asleep(files: SystemFiles, bus: str) -> bool:
    """Tell whether the card at this PCI address is switched off, or about to be."""
    status = files.text(f"{DEVICES}/{bus}/power/runtime_status") if bus else None
    return status in {"suspended", "suspending"}


def can_sleep(files: SystemFiles, bus: str) -> bool:
    """Tell whether the card may switch itself off; assumed where the system does not tell."""
    if not bus:
        return True
    folder = f"{DEVICES}/{bus}"
    if files.text(f"{folder}/power/control") != "auto":
        return False
    nvidia = files.text(f"proc/driver/nvidia/gpus/{bus}/power")
    if nvidia is not None and "Enabled" not in nvidia.partition("\n")[0]:
        return False
    return not _lights_a_screen(files, f"{folder}/drm")


def _lights_a_screen(files: SystemFiles, folder: str) -> bool:
    return any(
        files.text(f"{folder}/{card}/{connector}/enabled") == "enabled"
        for card in files.names(folder)
        if card.startswith("card")
        for connector in files.names(f"{folder}/{card}")
        if connector.startswith(card)
    )


class Turns:
    """Remembers when each card was asked."""

    def __init__(self, files: SystemFiles) -> None:
        self._files = files
        self._asked: dict[str, float] = {}

    def why_not(self, bus: str, now: float, *, in_use: bool) -> str:
        """Explain why a card is not asked now; "" if it is, which counts as having asked.

        Args:
            bus: its address; empty where the system does not tell.
            now: seconds on any clock.
            in_use: we compute on it ourselves.
        """
        if in_use:
            return ""
        if asleep(self._files, bus):
            return tr("it sleeps, and asking would wake it")
        pausing = now - self._asked.get(bus, -PAUSE_S) < PAUSE_S
        if pausing and can_sleep(self._files, bus):
            return tr("it is asked once a minute, so that it can go to sleep")
        if not pausing:
            self._asked[bus] = now
        return ""
