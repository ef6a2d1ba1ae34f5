"""The adapters that WebGPU finds on this machine, each once, through its best driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from engine.errors import Absent
from engine.language import tr
from engine.machine.facts import WEBGPU

_DRIVERS = {"Metal": "Metal", "Vulkan": "Vulkan", "D3D12": "DX12"}
"""Interfaces that compute in full, by what adapters call them, the best first.

OpenGL's is left out: it lists the same hardware once more.
"""


def is_installed() -> bool:
    """Tell whether wgpu is installed."""
    with suppress(ImportError, ValueError):
        return find_spec("wgpu") is not None
    return False


@cache
def adapters() -> Sequence[Any]:
    """Return the adapters (wgpu.GPUAdapter), hardware first; none without wgpu or drivers.

    The first call starts the system's graphics drivers.
    """
    if not is_installed():
        return ()
    if find_spec("triton") is not None:
        # Both bring an LLVM: Triton's crashes where a software driver's was loaded before it.
        import_module("triton._C.libtriton")
    try:
        import wgpu
        from wgpu.backends.wgpu_native.extras import set_instance_extras
    except (ImportError, OSError):
        return ()
    set_instance_extras(backends=[*_DRIVERS.values()])
    found = wgpu.gpu.enumerate_adapters_sync()
    seen: set[tuple[object, ...]] = set()
    usable = []
    for driver in _DRIVERS:
        for adapter in found:
            info = adapter.info
            card = info["vendor_id"], info["device_id"], info["device"]
            if info["backend_type"] == driver and (card not in seen or not is_software(adapter)):
                usable.append((driver, card, adapter))
        seen |= {card for _, card, _ in usable}
    return tuple(sorted((each for _, _, each in usable), key=is_software))


def is_software(adapter: Any) -> bool:  # noqa: ANN401
    """Tell whether an adapter computes on the CPU."""
    return bool(adapter.info["adapter_type"] == "CPU")


def adapter_named(name: str) -> Any:  # noqa: ANN401
    """Return the adapter of a device's name, "webgpu:0".

    Raises:
        Absent: there is none.
    """
    number = name.removeprefix(WEBGPU)
    every = adapters()
    if not number.isdecimal() or int(number) >= len(every):
        raise Absent(
            tr("There is no device {name} on this computer.").format(name=name),
            tr("`duotail hardware` lists the devices."),
        )
    return every[int(number)]
