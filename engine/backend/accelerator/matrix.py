"""A matrix on a device, in the file's own numbers, at about the file's own size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from engine.backend.accelerator.formats import FLOATS, QUANTISED
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.ledger import Purpose
from engine.model.weights.readable import Stretch
from engine.model.weights.stored import not_finite


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DeviceMatrix:
    """[rows, cols], stored as `kind`.

    Attributes:
        planes: one tensor [rows, cols] of numbers, or the parts of the format's blocks.
    """

    kind: str
    cols: int
    planes: tuple[torch.Tensor, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.planes[0].shape[0]

    @property
    def width(self) -> int:
        """Numbers of a row, with those that pad its last block."""
        return self.planes[0].shape[1] * (QUANTISED[self.kind].numbers if self.blocked else 1)

    @property
    def blocked(self) -> bool:
        """Tell whether its numbers are stored in blocks."""
        return self.kind in QUANTISED

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(plane.nbytes for plane in self.planes)

    @classmethod
    def empty(cls, kind: str, rows: int, cols: int, memory: DeviceAllocator) -> DeviceMatrix:
        """Room for a matrix; `OutOfMemory` where there is none."""
        if kind in FLOATS:
            return cls(kind, cols, (memory.zeros(Purpose.WEIGHTS, (rows, cols), FLOATS[kind]),))
        form = QUANTISED[kind]
        blocks = -(-cols // form.numbers)
        planes = [
            memory.zeros(
                Purpose.WEIGHTS,
                (rows, blocks, -part // 2 if part < 0 else part),
                torch.float16 if part < 0 else torch.uint8,
            )
            for part in form.parts
        ]
        return cls(kind, cols, tuple(planes))

    def fill(self, first: int, stretch: Stretch, name: str) -> None:
        """Fill the rows from `first` on with rows as they are stored.

        Raises:
            UserFixable: numbers, or scales, that are not finite.
        """
        if self.blocked:
            parts = QUANTISED[self.kind].split(stretch)
        else:
            rows = stretch.view(np.int16) if stretch.dtype == np.uint16 else stretch
            kept = rows if rows.flags.writeable else rows.copy()
            parts = [torch.from_numpy(kept).view(FLOATS[self.kind])]
        for plane, part in zip(self.planes, parts, strict=True):
            if part.is_floating_point() and not torch.isfinite(part).all():
                raise not_finite(name)
            plane[first : first + len(part)].copy_(part)

    def part(self, first: int, count: int) -> DeviceMatrix:
        """Some of its rows, in the same memory."""
        planes = tuple(plane[first : first + count] for plane in self.planes)
        return DeviceMatrix(self.kind, self.cols, planes)

    def picked(self, index: torch.Tensor) -> DeviceMatrix:
        """Copy the rows that an index on the device names."""
        planes = tuple(plane.index_select(0, index) for plane in self.planes)
        return DeviceMatrix(self.kind, self.cols, planes)

    def expert(self, index: torch.Tensor, rows: int) -> DeviceMatrix:
        """Copy the matrix that `index` [1] names out of a stack of matrices of `rows` rows."""
        planes = tuple(
            plane.view(-1, rows, *plane.shape[1:]).index_select(0, index)[0]
            for plane in self.planes
        )
        return DeviceMatrix(self.kind, self.cols, planes)
