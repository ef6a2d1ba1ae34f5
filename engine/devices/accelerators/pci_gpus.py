"""Graphics processors on the PCI bus, as Linux lists them in /sys: whoever drives them, or nobody.

Nothing here wakes a sleeping one: the kernel answers these files itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.machine.facts import PcieLink, Vendor
from engine.machine.system_files import SystemFiles

DEVICES = "sys/bus/pci/devices"
VENDORS = {0x10DE: Vendor.NVIDIA, 0x1002: Vendor.AMD, 0x8086: Vendor.INTEL}
"""Others make what only shows a picture: servers' and virtual machines' display adapters."""
_DISPLAY = 0x03
_GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""Generations of PCI Express by billions of transfers per second and lane."""
_INTEL_OWN = "0000:00:02.0"
"""PCI address of the graphics in Intel's processors, always the same."""
_NAMES = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "var/lib/pciutils/pci.ids")


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A GPU on the PCI bus; bytes.

    Attributes:
        bus: its address, "0000:01:00.0"; empty on systems that do not tell.
        name: from the table of PCI's names, where there is one.
        driver: that the kernel has bound to it; empty without one.
        total: its own memory, where the driver tells (AMD's does).
        used: of that, by all programs.
        integrated: in the processor for sure, so that it works in the host's memory.
    """

    bus: str
    vendor: Vendor
    name: str
    driver: str = ""
    total: int | None = None
    used: int | None = None
    integrated: bool = False
    link: PcieLink | None = None


def pci_gpus(files: SystemFiles, only: Vendor | None = None) -> tuple[PciGpu, ...]:
    """Return the GPUs of vendors that can compute, or of one vendor, in the order of the bus."""
    return tuple(
        _describe(files, bus, vendor)
        for bus in files.names(DEVICES)
        if (vendor := _vendor_of_gpu(files, bus)) is not None and only in (None, vendor)
    )


def buses_of(files: SystemFiles, vendor: Vendor) -> tuple[str, ...]:
    """Return the PCI addresses of one vendor's GPUs."""
    return tuple(bus for bus in files.names(DEVICES) if _vendor_of_gpu(files, bus) is vendor)


def _vendor_of_gpu(files: SystemFiles, bus: str) -> Vendor | None:
    kind = files.number(f"{DEVICES}/{bus}/class", 16)
    if kind is None or kind >> 16 != _DISPLAY:
        return None
    return VENDORS.get(files.number(f"{DEVICES}/{bus}/vendor", 16) or 0)


def _describe(files: SystemFiles, bus: str, vendor: Vendor) -> PciGpu:
    folder = f"{DEVICES}/{bus}"
    return PciGpu(
        bus=bus,
        vendor=vendor,
        name=files.text(f"{folder}/product_name") or _name(files, folder),
        driver=files.link(f"{folder}/driver"),
        total=files.number(f"{folder}/mem_info_vram_total"),
        used=files.number(f"{folder}/mem_info_vram_used"),
        integrated=vendor is Vendor.INTEL and bus == _INTEL_OWN,
        link=_link(files, folder),
    )


def _link(files: SystemFiles, folder: str) -> PcieLink | None:
    def generation(name: str) -> int | None:
        return _GENERATIONS.get((files.text(f"{folder}/{name}") or "").partition(" ")[0])

    link = PcieLink(
        generation("current_link_speed"),
        files.number(f"{folder}/current_link_width"),
        generation("max_link_speed"),
        files.number(f"{folder}/max_link_width"),
    )
    return None if link == PcieLink() else link


def _name(files: SystemFiles, folder: str) -> str:
    """The marketing name in square brackets where the table has one, else its whole entry."""
    vendor = (files.text(f"{folder}/vendor") or "").removeprefix("0x")
    device = (files.text(f"{folder}/device") or "").removeprefix("0x")
    table = next(filter(None, map(files.text, _NAMES)), "")
    # A vendor's line is followed by its devices', which begin with a tab.
    section = re.search(rf"^{re.escape(vendor)}  .*((?:\n[\t#].*)*)", table, re.MULTILINE)
    entry = section and re.search(rf"^\t{re.escape(device)}  (.*)", section[1], re.MULTILINE)
    if not entry:
        return ""
    chip, bracket, sold = entry[1].partition("[")
    return sold.rstrip("]") if bracket else chip
