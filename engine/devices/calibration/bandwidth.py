"""Plain reading of memory, on the host and on torch's devices, and copies between the two."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.ledger import Account
from engine.devices.calibration.small_model import OWNER
from engine.devices.calibration.timing import Course, undisturbed
from engine.machine.speeds import LinkSpeed

if TYPE_CHECKING:
    from torch import Tensor

COPIED = 64 << 20
FEW = 1024
RUNS = 8
PIECE = 16 << 20


def host_reader(
    device: Device, nbytes: int, threads: int | None, check: Callable[[], None]
) -> Callable[[], None]:
    """Return a function that reads so many bytes of the host's memory, laid out as weights are.

    `check` is called now and then while the bytes are written; it may raise `Cancelled`.

    Raises:
        OutOfMemory: the device's budget is too small.
    """
    if not native_is_built():
        words = np.empty(nbytes // 8, dtype=np.uint64)
        _fill(words.view(np.uint8), check)
        return lambda: _forget(words.max())
    from engine.backend.native.library import library, pointer
    from engine.backend.native.memory import Arena
    from engine.backend.native.pool import shared_pool

    data = Arena(Account(device.ledger, OWNER)).take(nbytes)
    _fill(data, check)
    pool = shared_pool(threads)
    return lambda: _forget(library().dt_checksum(pool.handle, pointer(data), len(data)))


def _fill(data: NDArray[np.uint8], check: Callable[[], None]) -> None:
    for start in range(0, len(data), PIECE):
        check()
        data[start : start + PIECE] = 1


def device_reader(name: str, nbytes: int) -> Callable[[], None]:
    """Return a function that reads so many bytes of the device's memory, and waits for the end."""
    import torch

    numbers = torch.ones(nbytes // 4, dtype=torch.float32, device=name)
    return lambda: _forget(numbers.sum().item())


def measure_link(name: str, course: Course, nbytes: int = COPIED) -> LinkSpeed:
    """Time copies there and back, from pinned memory where the device has it."""
    import torch

    pinned = torch.device(name).type in ("cuda", "xpu")
    wait = torch.get_device_module(torch.device(name)).synchronize
    host = torch.ones(nbytes, dtype=torch.uint8, pin_memory=pinned)
    there = torch.ones(nbytes, dtype=torch.uint8, device=name)

    def copy(target: Tensor, source: Tensor) -> None:
        target.copy_(source, non_blocking=True)
        wait()

    def seconds(target: Tensor, source: Tensor) -> float:
        copy(target, source)
        spent = [course.seconds(partial(copy, target, source)) for _ in range(RUNS)]
        return undisturbed(spent)

    latency = max(seconds(there[:FEW], host[:FEW]), seconds(host[:FEW], there[:FEW]))
    both = seconds(there, host), seconds(host, there)
    to, back = (nbytes / max(each - latency, each / 2) for each in both)
    return LinkSpeed(name, to, back, latency)


def _forget(_: object) -> None:
    """Discard what was read."""
