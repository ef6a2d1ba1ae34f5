"""Graphics processors as the system lists them, whoever drives them: Linux in /sys, or Windows.

Nothing here wakes a sleeping one: the kernel answers these files itself. What the system does not
tell is left to others: whether torch can use one, and as a rule its memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.machine.facts import Accelerator, PcieLink, Vendor
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
_ADAPTERS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
"""Windows' class of display adapters: one key with a number each."""
MAKERS: Mapping[Vendor, str] = {
    Vendor.NVIDIA: "NVIDIA",
    Vendor.AMD: "AMD",
    Vendor.INTEL: "Intel",
    Vendor.APPLE: "Apple",
}


def unnamed(vendor: Vendor) -> str:
    """Return what to call a GPU whose name nobody tells."""
    return f"{MAKERS.get(vendor, '')} GPU".strip()


def pci_gpus(files: SystemFiles, only: Vendor | None = None) -> tuple[Accelerator, ...]:
    """Return Linux' GPUs of vendors that can compute, or of one vendor, in the order of the bus.

    AMD's driver alone tells the memory; Intel's own graphics work in the host's for sure.
    """
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


def _describe(files: SystemFiles, bus: str, vendor: Vendor) -> Accelerator:
    folder = f"{DEVICES}/{bus}"
    total = files.number(f"{folder}/mem_info_vram_total")
    used = files.number(f"{folder}/mem_info_vram_used")
    return Accelerator(
        device="",
        name=files.text(f"{folder}/product_name") or _name(files, folder) or unnamed(vendor),
        vendor=vendor,
        memory_total=total,
        memory_free=None if total is None or used is None else max(total - used, 0),
        unified=vendor is Vendor.INTEL and bus == _INTEL_OWN,
        identity=bus,
        driver=files.link(f"{folder}/driver"),
        bus=bus,
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


def windows_gpus() -> tuple[Accelerator, ...]:
    """Return the GPUs of vendors that can compute; nothing on other systems than Windows."""
    found: list[Accelerator] = []
    if sys.platform == "win32":
        import winreg

        for number in range(32):
            path = rf"{_ADAPTERS}\{number:04d}"
            try:
                with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                    values: dict[str, Any] = {}
                    for name in ("MatchingDeviceId", "DriverDesc"):
                        values[name] = str(winreg.QueryValueEx(key, name)[0])
                    for name in ("DriverVersion", "HardwareInformation.qwMemorySize"):
                        with suppress(OSError):
                            values[name] = winreg.QueryValueEx(key, name)[0]
            except OSError:
                continue
            gpu = described(
                values["MatchingDeviceId"],
                values["DriverDesc"],
                values.get("HardwareInformation.qwMemorySize"),
                str(values.get("DriverVersion", "")),
            )
            if gpu is not None:
                found.append(gpu)
    return tuple(found)


def described(identity: str, name: str, size: object, driver: str = "") -> Accelerator | None:
    """Return the GPU of one key: r"PCI\\VEN_1002&DEV_744C", a name, bytes if they are a number."""
    vendor = re.search(r"VEN_([0-9A-F]{4})", identity.upper())
    known = VENDORS.get(int(vendor[1], 16)) if vendor else None
    if known is None:
        return None
    total = size if isinstance(size, int) else None
    return Accelerator("", name or unnamed(known), known, memory_total=total, driver=driver)
