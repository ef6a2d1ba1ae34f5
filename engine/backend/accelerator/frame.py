"""What a forward reads: fixed memory on host and device, for so many rows and so much of a tree.

A forward's shapes are its frame's; which rows are real, where they stand and what they may look at
are numbers on the device. So a frame's forward can be recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.sizes import BUCKETS, TAIL, computed, frame_sizes
from engine.backend.segment import Floats
from engine.backend.step import CHUNK, Step


@dataclass(frozen=True, slots=True)
class FrameShape:
    """What a forward's shapes depend on.

    Attributes:
        bucket: most real rows.
        tail: chunks of positions in which a row has a path of its own; 0 for a chain.
    """

    bucket: int
    tail: int

    @property
    def rows(self) -> int:
        """Rows that are computed, a multiple of 16."""
        return computed(self.bucket)

    @classmethod
    def of(cls, rows: int, tail: int) -> FrameShape:
        """The smallest for so many rows and chunks."""
        bucket = next(bucket for bucket in BUCKETS if bucket >= rows)
        return cls(bucket, doubled(tail, TAIL) if tail else 0)


def doubled(count: int, least: int) -> int:
    """The first of least, 2 * least, 4 * least, ... that is not below `count`."""
    while least < count:
        least *= 2
    return least


class Frame:
    """Integers and hidden states of a forward, which one copy each brings to the device.

    Attributes:
        tokens, positions, slots: int32 [rows] on the device.
        wanted: int32, the rows whose logits are wanted, then zeros.
        base: int32 [1], the first position that rows have paths of their own for.
        tail: int32 [rows, tail * CHUNK], the slots of those paths by position.
        hidden: fp32 [rows, width], what the blocks begin with.
    """

    def __init__(self, driver: Driver, shape: FrameShape, width: int) -> None:
        rows = shape.rows
        sizes = frame_sizes(shape.bucket, shape.tail)
        pinned, device = driver.computes_apart, driver.device
        self.shape = shape
        self._ints = torch.zeros(sum(sizes), dtype=torch.int32, pin_memory=pinned)
        self._floats = torch.zeros(rows, width, pin_memory=pinned)
        self._device_ints = torch.zeros(sum(sizes), dtype=torch.int32, device=device)
        self.hidden = torch.zeros(rows, width, device=device)
        self._host = [part.numpy() for part in torch.split(self._ints, sizes)]
        parts = torch.split(self._device_ints, sizes)
        self.tokens, self.positions, self.slots, self.wanted, self.base = parts[:5]
        self.tail = parts[5].view(rows, -1)
        self._sent = driver.mark()

    def send(
        self, step: Step, rows: range, wanted: Sequence[int], padding: int, hidden: Floats | None
    ) -> None:
        """Have the device read some of a step's rows.

        Args:
            step: the whole forward.
            rows: which of its rows.
            wanted: those of them whose logits are wanted, counted from the first.
            padding: slot from which on rows that are none write their keys.
            hidden: all rows' hidden states.
        """
        self._sent.wait()
        count, here = len(rows), slice(rows.start, rows.stop)
        tokens, positions, slots, chosen, base, tail = self._host
        first = step.first_slot + rows.start
        tokens[:count], tokens[count:] = step.tokens[here], 0
        positions[:count], positions[count:] = step.positions[here], 0
        slots[:count] = range(first, first + count)
        slots[count:] = [padding + row % CHUNK for row in range(len(slots) - count)]
        chosen[:] = 0
        chosen[: len(wanted)] = wanted
        if step.tree is not None:
            base[0] = positions[count:] = step.tree.base
            paths = tail.reshape(len(tokens), -1)
            found = step.tree.slots[step.tree.row_path[here]]
            paths[:] = 0
            paths[:count, : found.shape[1]] = found
        self._device_ints.copy_(self._ints, non_blocking=True)
        if hidden is not None:
            self._floats[:count] = torch.from_numpy(hidden[here])
            self.hidden.copy_(self._floats, non_blocking=True)
        self._sent.set()
