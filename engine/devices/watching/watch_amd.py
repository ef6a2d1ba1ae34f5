"""What AMD's cards are doing, as their Linux driver tells in /sys."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.devices.accelerators.pci_gpus import DEVICES, PciGpu, pci_gpus
from engine.devices.watching.rest import Turns
from engine.events import AcceleratorSample
from engine.language import tr
from engine.machine.facts import Missing, Vendor
from engine.machine.system_files import SystemFiles

RESCAN_S = 60.0
"""Cards come and go with a cable."""


class AmdWatch:
    """Reads the files of every card of AMD's that may be asked now.

    Args:
        files: /sys.
        in_use: whether we compute on the card with this address.
    """

    def __init__(self, files: SystemFiles, in_use: Callable[[str], bool]) -> None:
        self._files, self._in_use = files, in_use
        self._turns = Turns(files)
        self._cards: dict[str, PciGpu] = {}
        self._scan_at = -math.inf

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return all cards ever seen; without numbers where one is not asked or gone."""
        if now >= self._scan_at:
            found = {gpu.bus: gpu for gpu in pci_gpus(self._files, Vendor.AMD)}
            self._cards |= {bus: gpu for bus, gpu in found.items() if bus not in self._cards}
            self._scan_at = now + RESCAN_S
        return tuple(self._sample(gpu, now) for gpu in self._cards.values())

    def _sample(self, gpu: PciGpu, now: float) -> AcceleratorSample:
        folder = f"{DEVICES}/{gpu.bus}"
        name = gpu.name or "AMD GPU"
        reason = self._turns.why_not(gpu.bus, now, in_use=self._in_use(gpu.bus))
        if not reason and not self._files.exists(folder):
            reason = tr("it is not there any more")
        if reason:
            return AcceleratorSample(
                device="",
                name=name,
                memory_total=gpu.total,
                identity=gpu.bus,
                missing=(Missing("percent", reason),),
            )
        percent = self._files.number(f"{folder}/gpu_busy_percent")
        untold = Missing("percent", tr("its driver does not tell"))
        return AcceleratorSample(
            device="",
            name=name,
            identity=gpu.bus,
            percent=percent,
            memory_used=self._files.number(f"{folder}/mem_info_vram_used"),
            memory_total=self._files.number(f"{folder}/mem_info_vram_total"),
            temperature=self._sensor(folder, ("temp1_input",), 1e3),
            power=self._sensor(folder, ("power1_average", "power1_input"), 1e6),
            missing=(untold,) if percent is None else (),
        )

    def _sensor(self, folder: str, names: tuple[str, ...], units: float) -> float | None:
        for sensors in self._files.names(f"{folder}/hwmon"):
            for name in names:
                value = self._files.number(f"{folder}/hwmon/{sensors}/{name}")
                if value is not None:
                    return value / units
        return None
