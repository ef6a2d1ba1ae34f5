"""What NVIDIA's cards are doing, from one moment to the next."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace

from engine.devices.accelerators.nvml import Lost, Nvml, NvmlCard, Unavailable
from engine.devices.accelerators.pci_gpus import buses_of
from engine.devices.holders import named
from engine.devices.watching.rest import Turns
from engine.events import AcceleratorSample
from engine.machine.facts import Missing, Vendor
from engine.machine.system_files import LINUX, SystemFiles

RETRY_S = 30.0
"""Seconds to wait after a card or the driver was lost: drivers take time to come back."""
RESCAN_S = 60.0
"""Cards come and go with a cable."""
ALL = ("",)
"""Every card that the driver lists, where the system does not tell their addresses."""


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
            known = AcceleratorSample("", card.name, identity=_identity(card))
            self._seen[known.identity] = (card.bus if card.bus in buses else "", known)
        expected = {identity for identity, (bus, _) in self._seen.items() if bus in buses}
        if expected - {_identity(card) for card in self._cards}:
            self._again_at = now + RETRY_S

    def _read(self, now: float) -> dict[str, AcceleratorSample]:
        """The cards that answer, by identity; those that are lost are looked for again later."""
        fresh: dict[str, AcceleratorSample] = {}
        for card in tuple(self._cards):
            try:
                sample = _sample(card)
            except Lost as trouble:
                self._trouble = str(trouble)
                self._cards.remove(card)
                self._again_at = min(self._again_at, now + RETRY_S)
            else:
                fresh[sample.identity] = sample
                bus, known = self._seen[sample.identity]
                self._seen[sample.identity] = bus, replace(known, memory_total=sample.memory_total)
        return fresh


def _identity(card: NvmlCard) -> str:
    return card.uuid or card.bus


def _silent(known: AcceleratorSample, reason: str) -> AcceleratorSample:
    return replace(known, missing=(Missing("percent", reason),))


def _sample(card: NvmlCard) -> AcceleratorSample:
    reading = card.reading(os.getpid())
    return AcceleratorSample(
        device="",
        name=card.name,
        identity=_identity(card),
        percent=reading.percent,
        memory_used=reading.used,
        memory_ours=reading.ours,
        memory_total=reading.total,
        temperature=reading.temperature,
        power=reading.power,
        missing=card.missing(),
        holders=named(reading.processes),
    )
