"""Passes of a forward over a WebGPU device: which rows, what is sent, recorded and read of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.backend.step import Ints, Step
from engine.backend.webgpu.drawing import DeviceDraws
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.sizes import (
    LOGIT_ROWS,
    PATH_SLOTS,
    TICKS_BYTES,
    TREE_ROWS,
    input_offsets,
)
from engine.backend.webgpu.stages import Dispatch, Extent
from engine.model.weights.readable import Floats

_NOWHERE = 2**31 - 1
"""Base of a chain: all keys lie at the slots of their positions."""


def passes(
    step: Step,
    most: int,
    wanted: Sequence[int],
    hidden: Floats | None,
    *,
    own: bool,
    draws: DeviceDraws | None = None,
) -> Iterator[GpuPass]:
    """Divide a forward; later passes see the keys of earlier ones.

    Args:
        step: the forward.
        most: rows of a pass.
        wanted: rows whose logits are wanted, ascending.
        hidden: of all rows, where they are given.
        own: whether those are what a head itself has put out.
        draws: of the wanted rows, where the device draws or drafts.
    """
    if step.tree is not None:
        most = min(most, TREE_ROWS)
    if len(wanted) > LOGIT_ROWS:
        most = min(most, LOGIT_ROWS)
    count, done = len(step.tokens), 0
    for start in range(0, count, most):
        rows = range(start, min(start + most, count))
        chosen = [row - start for row in wanted if row in rows]
        given = None if hidden is None else hidden[rows.start : rows.stop]
        some = None if draws is None else draws.some(done, len(chosen))
        yield GpuPass(step, rows, chosen, done, given, own, some)
        done += len(chosen)


@dataclass(frozen=True, slots=True)
class GpuPass:
    """Rows of a step that are computed together.

    Attributes:
        step: the whole forward.
        rows: which of its rows.
        wanted: those of them whose logits are wanted, counted from the first.
        first_wanted: wanted rows of earlier passes.
        hidden: hidden states, or features, of these rows.
        own: those are what a head itself has put out.
        draws: of the wanted rows; None: nothing is drawn.
    """

    step: Step
    rows: range
    wanted: Sequence[int]
    first_wanted: int
    hidden: Floats | None
    own: bool
    draws: DeviceDraws | None = None

    @property
    def keys(self) -> int:
        """Keys that the last row may look at."""
        return int(self.step.positions[self.rows.start : self.rows.stop].max()) + 1

    def inputs(self, most: int) -> Ints:
        """Return facts of the rows, those that are wanted, and paths; see `input_offsets`.

        A row's facts are its token, its position, its slot, and where its path begins.

        Args:
            most: rows that the buffer has room for.
        """
        wanted, paths, end = (place // 4 for place in input_offsets(most))
        step, some, tree = self.step, slice(self.rows.start, self.rows.stop), self.step.tree
        count = len(self.rows)
        words = np.zeros(paths + 1 if tree is None else end, dtype=np.int32)
        facts = words[: 4 * count].reshape(count, 4)
        facts[:, 0] = step.tokens[some]
        facts[:, 1] = step.positions[some]
        facts[:, 2] = np.arange(some.start, some.stop) + step.first_slot
        words[wanted : wanted + len(self.wanted)] = self.wanted
        if self.draws is not None:
            for part in (self.draws.asked, self.draws.settings):
                wanted += LOGIT_ROWS
                words[wanted : wanted + len(part)] = part
        words[paths] = _NOWHERE
        if tree is not None:
            words[paths] = tree.base
            width = tree.slots.shape[1]
            if width > PATH_SLOTS:
                raise ValueError("a tree deeper than there is room for")
            ways, places = np.unique(tree.row_path[some], return_inverse=True)
            facts[:, 3] = 1 + places * width
            begin = paths + 1
            words[begin : begin + ways.size * width] = tree.slots[ways].reshape(-1)
        return words


class ReadBack:
    """Places of a pass's results in the buffer that the host reads, by what they are.

    Attributes:
        parts: block or name, first byte, end.
        nbytes: of all.
    """

    def __init__(self) -> None:
        self.parts: list[tuple[int | str, int, int]] = []
        self.nbytes = 0

    def place(self, name: int | str, nbytes: int) -> int:
        """Return the first byte for so many more."""
        begin, self.nbytes = self.nbytes, self.nbytes + nbytes
        self.parts.append((name, begin, self.nbytes))
        return begin


class Recorder:
    """Appends dispatches and copies to an encoder; copies stand between compute passes."""

    def __init__(self, gpu: Gpu, encoder: Any, extent: Extent, results: Buffer) -> None:  # noqa: ANN401
        self.extent = extent
        self._gpu, self._encoder, self._results = gpu, encoder, results
        self._work: Any = None
        self._begun = False

    def add(self, dispatches: Sequence[Dispatch]) -> None:
        """Append dispatches."""
        for dispatch in dispatches:
            if self._work is None:
                noted = self._noted(dispatch.kernel.name)
                self._work = self._encoder.begin_compute_pass(timestamp_writes=noted)
            dispatch.encode(self._gpu, self._work, self.extent)
            if self._gpu.kernel_clock is not None:
                self.end()

    def copy(self, source: Buffer, nbytes: int, place: int) -> None:
        """Append a copy to what the host reads."""
        self.end()
        self._encoder.copy_buffer_to_buffer(source, 0, self._results, place, nbytes)

    def put(self, source: Buffer, nbytes: int, target: Buffer) -> None:
        """Append a copy within the device, unless both are the same."""
        if source is not target:
            self.end()
            self._encoder.copy_buffer_to_buffer(source, 0, target, 0, nbytes)

    def end(self) -> None:
        """End the compute pass."""
        if self._work is not None:
            self._work.end()
            self._work = None

    def bring_ticks(self, outbox: ReadBack) -> None:
        """Append what tells how long the device has computed, where it can tell."""
        if self._gpu.clock is not None and self._begun:
            place = outbox.place("ticks", TICKS_BYTES)
            self._gpu.clock.bring(self._encoder, self._results, place)

    def _noted(self, kernel: str) -> dict[str, object] | None:
        if self._gpu.kernel_clock is not None:
            return self._gpu.kernel_clock.writes(kernel)
        first, self._begun = not self._begun, True
        return None if self._gpu.clock is None else self._gpu.clock.writes(first=first)
