"""What the tests for an accelerator compute on, and what they hold there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from recorded_nvml import FIRST, GIB

from engine.devices.monitor import AcceleratorWatch


@dataclass(frozen=True)
class Card:
    """What these tests compute on.

    Attributes:
        name: torch's.
        real: whether it is an accelerator.
    """

    name: str
    real: bool


class Held:
    """Bytes that this process takes on the accelerator; the stand-in's library tells of them.

    Args:
        card: where.
        library: in the place of NVIDIA's; None: it is a real one.
        files: the system's, in which a watch looks for cards.
    """

    def __init__(self, card: Card, library: Any, files: Any = None) -> None:
        self._card, self._library, self._files = card, library, files
        self.tell(0)

    def watch(self) -> AcceleratorWatch:
        return AcceleratorWatch() if self._files is None else AcceleratorWatch(self._files)

    def tell(self, nbytes: int) -> None:
        if self._library is None:
            return
        self._library.records(
            f"""
            driver 570.86.15
            cuda 12080
            count 1
            0.name NVIDIA GeForce RTX 3060
            0.uuid {FIRST}
            0.bus 00000000:01:00.0
            0.memory {12 * GIB} {10 * GIB - nbytes}
            0.capability 8.6
            0.processes self {nbytes}
            """
        )

    def take(self, device: str, nbytes: int) -> Any:
        self.tell(nbytes)
        where = device if self._card.real else self._card.name
        return torch.empty(nbytes, dtype=torch.uint8, device=where)
