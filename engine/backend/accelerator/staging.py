"""Fixed memory on a device that the host writes anew for every forward, without waiting for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.backend.accelerator.driver import Driver


class Staged:
    """A tensor on a device, and two on the host, page-locked where that helps.

    The host writes them in turns: while the device still reads one, the next forward's numbers go
    to the other.

    Attributes:
        device: the tensor there, zeros at first.
    """

    def __init__(self, driver: Driver, shape: Sequence[int], dtype: torch.dtype) -> None:
        pinned = driver.computes_apart
        self.device = torch.zeros(tuple(shape), dtype=dtype, device=driver.device)
        self._sides = [
            (torch.zeros(tuple(shape), dtype=dtype, pin_memory=pinned), driver.mark())
            for _ in range(2)
        ]

    def write(self) -> torch.Tensor:
        """The tensor on the host to write now; it has the numbers of the time before the last."""
        self._sides.reverse()
        host, read = self._sides[0]
        read.wait()
        return host

    def send(self) -> None:
        """Have the device take over what was written."""
        host, read = self._sides[0]
        self.device.copy_(host, non_blocking=True)
        read.set()
