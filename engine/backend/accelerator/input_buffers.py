"""Fixed memory through which forwards' inputs and results pass, without waiting for copies.

A forward's shapes are those of its inputs, by rows and depth of the tree; which rows are valid,
their positions and what they may attend to are numbers on the device. So a forward can be recorded
once and replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.sizes import (
    BUCKETS,
    FEW_ROWS,
    FEWEST_CHUNKS,
    TAIL,
    computed,
    frame_bytes,
    frame_sizes,
)
from engine.backend.ledger import Purpose
from engine.backend.step import CHUNK, Step
from engine.model.weights.readable import Floats


class Staged:
    """A tensor on a device, and two on the host, page-locked where that helps.

    The host writes them in turns: while the device still reads one, the next forward's numbers go
    to the other.

    Attributes:
        device: the tensor there, zeros at first.
    """

    def __init__(self, driver: Driver, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._driver, pinned = driver, driver.computes_apart
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
        self._driver.copy(self.device, host)
        read.set()


_KEPT_BYTES = 16 << 20


class Outbox:
    """Arrays for results; smaller ones are kept, page-locked where that helps, and never move.

    What lies there is valid until the next forward.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._kept: dict[tuple[str, int], torch.Tensor] = {}

    def room(self, name: str, rows: int, width: int) -> torch.Tensor:
        """fp32 [rows, width]; at the same address for the same power of two of rows."""
        if rows > FEW_ROWS and rows * width * 4 > _KEPT_BYTES:
            return torch.empty(rows, width)
        kept = 1 << max(rows - 1, 0).bit_length()
        room = self._kept.get((name, kept))
        if room is None:
            room = torch.empty(kept, width, pin_memory=self._driver.computes_apart)
            self._kept[name, kept] = room
        return room[:rows]

    def take(self, place: torch.Tensor, found: torch.Tensor) -> None:
        """Have the first rows of a result brought here; they are there after `Driver.wait`."""
        self._driver.copy(place, found[: len(place)])


@dataclass(frozen=True, slots=True)
class InputShape:
    """Sizes that determine the shapes of a forward.

    Attributes:
        bucket: most real rows.
        tail: chunks of positions in which a row has a path of its own; 0 for a chain.
        width: numbers of each row of hidden states, or of features.
    """

    bucket: int
    tail: int
    width: int

    @property
    def rows(self) -> int:
        """Rows that are computed, a multiple of 16."""
        return computed(self.bucket)

    @classmethod
    def of(cls, rows: int, tail: int, width: int) -> InputShape:
        """The smallest for so many rows and chunks."""
        bucket = next(bucket for bucket in BUCKETS if bucket >= rows)
        return cls(bucket, doubled(tail, TAIL) if tail else 0, width)


def doubled(count: int, least: int) -> int:
    """Return the first of least, 2 * least, 4 * least, ... that is not below `count`."""
    while least < count:
        least *= 2
    return least


class InputBuffers:
    """Integers and hidden states of a forward, which one copy each brings to the device.

    Attributes:
        tokens, positions, slots: int32 [rows] on the device.
        wanted: int32, the rows whose logits are wanted, then zeros.
        base: int32 [1], the first position that rows have paths of their own for.
        tail: int32 [rows, tail * CHUNK], the slots of those paths by position.
        hidden: fp32 [rows, width], what the blocks begin with.
    """

    def __init__(self, driver: Driver, shape: InputShape) -> None:
        self._sizes, self._transfers = frame_sizes(shape.bucket, shape.tail), driver.transfers
        self.shape = shape
        self._ints = Staged(driver, [sum(self._sizes)], torch.int32)
        self._floats = Staged(driver, [shape.rows, shape.width], torch.float32)
        self.hidden = self._floats.device
        parts = torch.split(self._ints.device, self._sizes)
        self.tokens, self.positions, self.slots, self.wanted, self.base = parts[:5]
        self.tail = parts[5].view(shape.rows, -1)

    def send(
        self, step: Step, rows: range, wanted: Sequence[int], padding: int, hidden: Floats | None
    ) -> None:
        """Send some of a step's rows to the device.

        Args:
            step: the whole forward.
            rows: which of its rows.
            wanted: those of them whose logits are wanted, counted from the first.
            padding: slot from which on rows that are none write their keys.
            hidden: all rows' hidden states, or features.
        """
        begun = perf_counter()
        count, here = len(rows), slice(rows.start, rows.stop)
        host = torch.split(self._ints.write(), self._sizes)
        tokens, positions, slots, chosen, base, tail = (part.numpy() for part in host)
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
        self._ints.send()
        if hidden is not None:
            self._floats.write()[:count] = torch.from_numpy(hidden[here])
            self._floats.send()
        self._transfers.note(begun, perf_counter())


class SegmentInputs:
    """The inputs of a segment, made when they are needed.

    Args:
        driver: of the device.
        memory: where larger ones than are planned for are entered.
        width: numbers of a row that are planned for.
    """

    def __init__(self, driver: Driver, memory: DeviceAllocator, width: int) -> None:
        self._driver, self._memory, self._width = driver, memory, width
        self._made: dict[InputShape, InputBuffers] = {}

    def buffers(self, step: Step, rows: int, width: int | None = None) -> InputBuffers:
        """Return the buffers for `rows` rows of a step.

        `width`: numbers of each row of hidden states or features; None: the planned width.
        """
        tail = 0 if step.tree is None else step.tree.slots.shape[1] // CHUNK
        shape = InputShape.of(rows, tail, self._width if width is None else width)
        inputs = self._made.get(shape)
        if inputs is None:
            if shape.tail > TAIL or shape.width != self._width:
                needed = frame_bytes(shape.bucket, shape.tail, shape.width)
                self._memory.enter(Purpose.WORKSPACE, needed)
            inputs = self._made[shape] = InputBuffers(self._driver, shape)
        return inputs


def passes(step: Step) -> Iterator[range]:
    """Ranges of rows that are computed together; later ones see the keys of earlier ones."""
    most = BUCKETS[-1] if step.tree is None else FEW_ROWS
    rows = len(step.tokens)
    for start in range(0, rows, most):
        yield range(start, min(start + most, rows))


def chunks_seen(step: Step, rows: range, chunks: int) -> int:
    """Chunks of keys that rows look at where they lie in a cache of so many."""
    if step.tree is None:
        needed = (step.first_slot + rows.stop - 1) // CHUNK + 1
    else:
        needed = step.tree.base // CHUNK
    return min(doubled(needed, FEWEST_CHUNKS), chunks)
