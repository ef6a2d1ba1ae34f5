"""Where a device's results arrive on the host."""

from __future__ import annotations

import torch

from engine.backend.accelerator.sizes import FEW_ROWS

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
