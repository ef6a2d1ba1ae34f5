"""Ceilings of a device: how fast a large copy moves its memory, and a large product computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import numpy as np

from engine.backend.cpu import CpuDevice
from engine.backend.ledger import Ledger
from engine.devices.calibration.timing import host_reader
from engine.machine.facts import CPU, WEBGPU

COPIED = 1 << 30
"""Bytes of a copy: more than any cache holds."""
SIDE = 8192
"""Rows and columns of the matrices of a product."""
_RUNS = 7


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The best that a device does here.

    Attributes:
        bytes_per_s: of a copy within the device, bytes read and bytes written; on the CPU, of
            reading.
        flop_per_s: of a product of square matrices, by the type of their numbers.
    """

    bytes_per_s: float
    flop_per_s: dict[str, float] = field(default_factory=dict)


def ceilings(name: str, nbytes: int = COPIED, side: int = SIDE) -> Ceilings:
    """Measure a device by its name in plans.

    Args:
        name: "cpu", "webgpu:0", or torch's name.
        nbytes: of the copy, less where the device does not bind so many.
        side: of the matrices.

    Raises:
        UserFixable: there is no such device, or no memory left on it.
    """
    if name == CPU:
        device = CpuDevice()
        spent = _seconds(host_reader(device, nbytes, None, lambda: None), lambda: None)
        return Ceilings(nbytes / spent)
    return _of_webgpu(name, nbytes) if name.startswith(WEBGPU) else of_torch(name, nbytes, side)


def _seconds(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the median of several runs, each waited for, after one that is not timed."""
    found = []
    for _ in range(_RUNS + 1):
        start = perf_counter()
        work()
        wait()
        found.append(perf_counter() - start)
    return median(found[1:])


def of_torch(name: str, nbytes: int = COPIED, side: int = SIDE) -> Ceilings:
    """Measure a device of torch's, its "cpu" too; see `ceilings`."""
    import torch  # imported where a device of torch's is measured

    device = torch.device(name)
    wait = (lambda: None) if device.type == CPU else torch.get_device_module(device).synchronize
    source = torch.ones(nbytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = 2 * nbytes / _seconds(lambda: target.copy_(source), wait)
    products = {}
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        # Not zeros, which some devices multiply faster.
        one, other = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
        out = torch.empty_like(one)
        spent = _seconds(lambda a=one, b=other, c=out: torch.mm(a, b, out=c), wait)  # type: ignore[misc]
        products[str(kind).removeprefix("torch.")] = 2 * side**3 / spent
    return Ceilings(copied, products)


def _of_webgpu(name: str, nbytes: int) -> Ceilings:
    from engine.backend.webgpu.adapters import adapter_named
    from engine.backend.webgpu.gpu import Gpu

    gpu = Gpu(adapter_named(name), Ledger(name, name, None))
    try:
        nbytes = min(nbytes, gpu.limits["max-buffer-size"]) // 4 * 4
        source, target = gpu.buffer(nbytes), gpu.buffer(nbytes)
        told = gpu.buffer(4, readable=True)
        gpu.write(source, 0, np.ones(1, dtype=np.float32))

        def copy() -> None:
            def record(encoder: object) -> None:
                encoder.copy_buffer_to_buffer(source, 0, target, 0, nbytes)  # type: ignore[attr-defined]
                encoder.copy_buffer_to_buffer(target, 0, told, 0, 4)  # type: ignore[attr-defined]

            gpu.submit(record)

        return Ceilings(2 * nbytes / _seconds(copy, lambda: gpu.read(told, 4)))
    finally:
        gpu.close()
