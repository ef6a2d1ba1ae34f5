"""Something with torch's functions that lists the devices a test wants."""

from __future__ import annotations

import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

GIB = 2**30


def torch_with(
    *,
    cuda: list[SimpleNamespace] | None = None,
    xpu: list[SimpleNamespace] | None = None,
    mps: int = 0,
    hip: str | None = None,
    built_for: str = "sm_75 sm_80 sm_86 sm_90 compute_90",
    warning: str = "",
    reserved: int = 0,
) -> ModuleType:
    """`cuda` and `xpu`: properties of devices; `mps`: bytes recommended for Apple's."""

    def available() -> bool:
        if warning:
            warnings.warn(warning, UserWarning, stacklevel=2)
        return bool(cuda)

    def room(devices: list[SimpleNamespace], **more: Any) -> SimpleNamespace:
        return SimpleNamespace(
            is_available=lambda: bool(devices),
            is_initialized=lambda: bool(devices),
            device_count=lambda: len(devices),
            get_device_properties=lambda index: devices[index],
            memory_reserved=lambda _index: reserved,
            **more,
        )

    torch: Any = ModuleType("torch")
    torch.version = SimpleNamespace(hip=hip)
    torch.cuda = room(cuda or [], get_arch_list=built_for.split)
    torch.cuda.is_available = available
    torch.xpu = room(xpu or [], mem_get_info=lambda index: (5 * GIB, xpu[index].total_memory))
    torch.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: bool(mps)))
    torch.mps = SimpleNamespace(
        recommended_max_memory=lambda: mps, driver_allocated_memory=lambda: reserved
    )
    return torch


def card(name: str, capability: tuple[int, int], total: int, **more: Any) -> SimpleNamespace:
    """Properties of one of NVIDIA's, as torch tells them."""
    major, minor = capability
    return SimpleNamespace(name=name, major=major, minor=minor, total_memory=total, **more)
