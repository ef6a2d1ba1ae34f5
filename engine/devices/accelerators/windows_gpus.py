"""Graphics processors as Windows keeps them in its registry, with their own memory's size."""

from __future__ import annotations

import re
import sys

from engine.devices.accelerators.pci_gpus import VENDORS, PciGpu

_ADAPTERS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
"""The class of display adapters: one key with a number each."""


def windows_gpus() -> tuple[PciGpu, ...]:
    """Return the GPUs of vendors that can compute; nothing on other systems than Windows."""
    found: list[PciGpu] = []
    if sys.platform == "win32":
        import winreg

        for number in range(32):
            path = rf"{_ADAPTERS}\{number:04d}"
            try:
                with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                    values = {}
                    for name in ("MatchingDeviceId", "DriverDesc"):
                        values[name] = str(winreg.QueryValueEx(key, name)[0])
                    try:
                        size = winreg.QueryValueEx(key, "HardwareInformation.qwMemorySize")[0]
                    except OSError:
                        size = None
            except OSError:
                continue
            gpu = described(values["MatchingDeviceId"], values["DriverDesc"], size)
            if gpu is not None:
                found.append(gpu)
    return tuple(found)


def described(identity: str, name: str, size: object) -> PciGpu | None:
    """Return the GPU of one key: r"PCI\\VEN_1002&DEV_744C", a name, bytes if they are a number."""
    vendor = re.search(r"VEN_([0-9A-F]{4})", identity.upper())
    known = VENDORS.get(int(vendor[1], 16)) if vendor else None
    if known is None:
        return None
    return PciGpu("", known, name, total=size if isinstance(size, int) else None)
