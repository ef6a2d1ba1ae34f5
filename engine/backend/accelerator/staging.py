"""Fixed memory through which a device's inputs and results pass, without waiting for copies."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.sizes import FEW_ROWS


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


_KEPT_BYTES = 16 << 20


class Outbox:
    """Arrays for results; smaller ones are kept, as page-locked memory if asked, and never move.

    What lies there is valid until the next forward.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._kept: dict[tuple[str, int], torch.Tensor] = {}

    def room(self, name: str, rows: int, width: int) -> torch.Tensor:
        """fp32 [rows, width]; at the same address for the same power of two of rows."""
        if rows > FEW_ROWS and rows * width * 4 > _KEPT_BYTES:
            return torch.empty(rows, width)
        kept = 1 << max(rows - 1, 0).bit_length()
        room = self._kept.get((name, kept))
        if room is None:
            room = torch.empty(kept, width, pin_memory=self._pinned)
            self._kept[name, kept] = room
        return room[:rows]

    def take(self, place: torch.Tensor, found: torch.Tensor) -> None:
        """Have the first rows of a result brought here; they are there after `Driver.wait`."""
        place.copy_(found[: len(place)], non_blocking=True)
