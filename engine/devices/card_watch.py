"""What NVIDIA's and AMD's cards are doing, asked so that none is kept awake by it.

A laptop's second graphics processor switches itself off some seconds after its last user. Asking
its driver wakes it, and an open driver keeps it from sleeping, which costs hours of battery. The
kernel's own files about power do neither. So a card that can sleep is asked all the time only while
we compute on it ourselves; asleep, never; awake for somebody else, once a minute, after which the
driver is let go of, so that the card can settle in between.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace

from engine.devices.accelerators.nvml import Lost, Nvml, NvmlCard, Unavailable
from engine.devices.accelerators.system_gpus import DEVICES, buses_of, pci_gpus
from engine.events import AcceleratorSample
from engine.language import tr
from engine.machine.facts import Accelerator, Missing, Vendor
from engine.machine.system_files import LINUX, SystemFiles

PAUSE_S = 60.0
"""Drivers switch a card off after some ten seconds without a question."""
RETRY_S = 30.0
"""Seconds to wait after a card or the driver was lost: drivers take time to come back."""
RESCAN_S = 60.0
"""Cards come and go with a cable."""
ALL = ("",)
"""Every card that the driver lists, where the system does not tell their addresses."""


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
            return tr("it is asleep, and a query would wake it")
        pausing = now - self._asked.get(bus, -PAUSE_S) < PAUSE_S
        if pausing and can_sleep(self._files, bus):
            return tr("it is queried once a minute, so that it can sleep")
        if not pausing:
            self._asked[bus] = now
        return ""


class NvmlWatch:
    """Asks the cards that may be asked now. The driver is open only for those.

    Args:
        files: /sys, for addresses and power.
        in_use: whether we compute on the card with this address; empty: on any.
    """

    def __init__(self, files: SystemFiles, in_use: Callable[[str], bool]) -> None:
        self._files, self._in_use = files, in_use
        self._turns = Turns(files)
        self._library: Nvml | None = None
        self._cards: list[NvmlCard] = []
        self._open_for: tuple[str, ...] = ()
        self._seen: dict[str, tuple[str, AcceleratorSample]] = {}
        """Address, and what does not change, of every card by its identity."""
        self._trouble = ""
        self._not_before = -math.inf
        """When the driver may be opened again after it failed."""
        self._again_at = math.inf
        """When to look for cards that were lost."""
        self._buses: tuple[str, ...] = ()
        self._scan_at = -math.inf

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return all cards ever seen, in that order; without numbers where one is not asked."""
        if now >= self._scan_at:
            self._buses, self._scan_at = self._present(), now + RESCAN_S
        reasons = {
            bus: self._turns.why_not(bus, now, in_use=self._in_use(bus)) for bus in self._buses
        }
        wanted = tuple(bus for bus in self._buses if not reasons[bus])
        if wanted != self._open_for or now >= self._again_at:
            self._open(wanted, now)
        fresh = self._read(now)
        return tuple(
            fresh.get(identity) or _silent(known, reasons.get(bus) or self._trouble)
            for identity, (bus, known) in self._seen.items()
        )

    def close(self) -> None:
        """Let go of the driver."""
        if self._library is not None:
            self._library.close()
        self._library, self._cards, self._open_for = None, [], ()

    def _present(self) -> tuple[str, ...]:
        """Return the addresses of the cards in this machine."""
        if not LINUX:
            return ALL if sys.platform == "win32" else ()
        # In Linux under Windows, and on boards without such a bus, the driver alone knows.
        elsewhere = any(self._files.exists(f"dev/{name}") for name in ("nvidiactl", "dxg"))
        return buses_of(self._files, Vendor.NVIDIA) or (ALL if elsewhere else ())

    def _open(self, buses: tuple[str, ...], now: float) -> None:
        self.close()
        self._again_at = math.inf
        if not buses or now < self._not_before:
            return
        try:
            self._library = Nvml()
            self._cards = self._library.cards(None if buses == ALL else buses)
        except (Unavailable, Lost) as trouble:
            self.close()
            never = isinstance(trouble, Unavailable) and trouble.absent
            self._trouble = str(trouble)
            self._not_before = math.inf if never else now + RETRY_S
            return
        self._open_for = buses
        for card in self._cards:
            known = AcceleratorSample("", card.name, identity=card.identity)
            self._seen[known.identity] = (card.bus if card.bus in buses else "", known)
        expected = {identity for identity, (bus, _) in self._seen.items() if bus in buses}
        if expected - {card.identity for card in self._cards}:
            self._again_at = now + RETRY_S

    def _read(self, now: float) -> dict[str, AcceleratorSample]:
        """The cards that answer, by identity; those that are lost are looked for again later."""
        fresh: dict[str, AcceleratorSample] = {}
        for card in tuple(self._cards):
            try:
                sample = card.sample()
            except Lost as trouble:
                self._trouble = str(trouble)
                self._cards.remove(card)
                self._again_at = min(self._again_at, now + RETRY_S)
            else:
                fresh[sample.identity] = sample
                bus, known = self._seen[sample.identity]
                self._seen[sample.identity] = bus, replace(known, memory_total=sample.memory_total)
        return fresh


class AmdWatch:
    """Reads the files of every card of AMD's that may be asked now.

    Args:
        files: /sys.
        in_use: whether we compute on the card with this address.
    """

    def __init__(self, files: SystemFiles, in_use: Callable[[str], bool]) -> None:
        self._files, self._in_use = files, in_use
        self._turns = Turns(files)
        self._cards: dict[str, Accelerator] = {}
        self._scan_at = -math.inf

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return all cards ever seen; without numbers where one is not asked or gone."""
        if now >= self._scan_at:
            for gpu in pci_gpus(self._files, Vendor.AMD):
                self._cards.setdefault(gpu.bus, gpu)
            self._scan_at = now + RESCAN_S
        return tuple(self._sample(gpu, now) for gpu in self._cards.values())

    def _sample(self, gpu: Accelerator, now: float) -> AcceleratorSample:
        folder = f"{DEVICES}/{gpu.bus}"
        known = AcceleratorSample("", gpu.name, identity=gpu.bus)
        reason = self._turns.why_not(gpu.bus, now, in_use=self._in_use(gpu.bus))
        if not reason and not self._files.exists(folder):
            reason = tr("it is no longer there")
        if reason:
            return _silent(replace(known, memory_total=gpu.memory_total), reason)
        percent = self._files.number(f"{folder}/gpu_busy_percent")
        sample = replace(
            known,
            percent=percent,
            memory_used=self._files.number(f"{folder}/mem_info_vram_used"),
            memory_total=self._files.number(f"{folder}/mem_info_vram_total"),
            temperature=self._sensor(folder, ("temp1_input",), 1e3),
            power=self._sensor(folder, ("power1_average", "power1_input"), 1e6),
        )
        return _silent(sample, tr("its driver does not report it")) if percent is None else sample

    def _sensor(self, folder: str, names: tuple[str, ...], units: float) -> float | None:
        for sensors in self._files.names(f"{folder}/hwmon"):
            for name in names:
                value = self._files.number(f"{folder}/hwmon/{sensors}/{name}")
                if value is not None:
                    return value / units
        return None


def _silent(known: AcceleratorSample, reason: str) -> AcceleratorSample:
    return replace(known, missing=(Missing("percent", reason),))
