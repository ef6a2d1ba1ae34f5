"""Accelerators on torch: plain reading there, and copies between the host's memory and theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from engine.hardware.calibration.timing import Course, undisturbed
from engine.machine.speeds import LinkSpeed

if TYPE_CHECKING:
    from torch import Tensor

COPIED = 64 << 20
FEW = 1024
RUNS = 8


def device_reader(name: str, nbytes: int) -> Callable[[], None]:
    """Reads so many bytes of the device's memory, and waits until they are read."""
    import torch

    numbers = torch.ones(nbytes // 4, dtype=torch.float32, device=name)
    return lambda: _forget(numbers.sum().item())


def measure_link(name: str, course: Course, nbytes: int = COPIED) -> LinkSpeed:
    """Copies there and back, of pinned memory where there is such a thing."""
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
    """What was read does not matter."""
