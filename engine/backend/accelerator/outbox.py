"""Where a device's results arrive on the host."""

from __future__ import annotations

import torch

from engine.backend.accelerator.sizes import FEW_ROWS


class Outbox:
    """Arrays for results; those of a few rows are kept, as page-locked memory if asked.

    What lies there is valid until the next forward.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._kept: dict[str, torch.Tensor] = {}

    def room(self, name: str, rows: int, width: int) -> torch.Tensor:
        """fp32 [rows, width]."""
        if rows > FEW_ROWS:
            return torch.empty(rows, width)
        kept = self._kept.get(name)
        if kept is None or len(kept) < rows:
            doubled = 1 << max(rows - 1, 0).bit_length()
            kept = self._kept[name] = torch.empty(doubled, width, pin_memory=self._pinned)
        return kept[:rows]

    def take(self, place: torch.Tensor, found: torch.Tensor) -> None:
        """Have the first rows of a result brought here; they are there after `Driver.wait`."""
        place.copy_(found[: len(place)], non_blocking=True)
