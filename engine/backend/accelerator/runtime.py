"""What a device's own software takes of its memory, before the first tensor of ours."""

from __future__ import annotations

import os
from functools import cache

import torch

from engine.backend.accelerator.driver import Driver

USUAL = {"cuda": 400 << 20, "rocm": 500 << 20, "xpu": 300 << 20}
"""By the kind of device, where nobody tells."""
RESERVE = 48 << 20
"""What torch's allocator takes beyond living tensors: it hands out parts of larger blocks."""
_LEAST = 32 << 20
"""A context takes more than that; less was measured where there was one before."""


def runtime_bytes(driver: Driver) -> int:
    """Of the driver's context and the library of products, which are started here.

    Measured once per process and device. What the allocator wastes is added.
    """
    return _measured(str(driver.device)) + (RESERVE if driver.computes_apart else 0)


@cache
def _measured(name: str) -> int:
    driver = Driver(name)
    if not driver.computes_apart:
        return 0
    before, tensors = _used(driver), driver.reserved()
    _start(driver)
    after = _used(driver)
    if before is not None and after is not None:
        # What this process holds, where the driver tells; else what the device has lost meanwhile.
        for found in (after[1] - tensors, after[0] - before[0]):
            if found >= _LEAST:
                return found
    return USUAL.get(driver.kind, 0)


def _start(driver: Driver) -> None:
    """Use what is loaded, and the memory that is taken, at its first use."""
    tile = torch.ones(16, 16, dtype=torch.float16, device=driver.device)
    torch.mm(tile, tile).sum()
    torch.bmm(tile[None].float(), tile[None].float())
    driver.wait()


def _used(driver: Driver) -> tuple[int, int] | None:
    """Bytes that all programs hold on an NVIDIA card, and this process, 0 where that is secret."""
    if driver.kind != "cuda":
        return None
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
        try:
            uuid = f"GPU-{torch.cuda.get_device_properties(driver.device).uuid}"
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            by_all = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
            ours = [
                int(process.usedGpuMemory or 0)
                for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
                if process.pid == os.getpid()
            ]
            return by_all, sum(ours)
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, AttributeError):
        return None
