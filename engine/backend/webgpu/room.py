"""A segment's buffers beside its weights."""

from __future__ import annotations

import numpy as np

from engine.backend.ledger import Account, Purpose
from engine.backend.webgpu.gpu import Buffer, BufferRegion, Gpu
from engine.backend.webgpu.sizes import (
    buffers,
    input_offsets,
    pass_rows,
    ropes_of,
    table_bytes,
)
from engine.model.config import ModelConfig, RopeConfig
from engine.model.rope import rotations


class GpuRoom:
    """A segment's buffers beside its weights, for sequences with so many slots.

    Attributes:
        slots: of the longest sequence.
        rows: that are computed together at most.
        tables: rotations, by how they are made.
    """

    def __init__(
        self,
        gpu: Gpu,
        account: Account,
        config: ModelConfig,
        blocks: range,
        slots: int,
        *,
        head: bool,
    ) -> None:
        self.slots, self.rows = slots, pass_rows(config, slots)
        self._gpu, self._account = gpu, account
        sizes = buffers(config, len(blocks), slots, head=head)
        nbytes = sum(sizes.values()) + table_bytes(config, blocks, slots)
        account.take(Purpose.WORKSPACE, nbytes).lasts_as_long_as(self)
        self._buffers = {
            name: gpu.buffer(size, readable=name == "results") for name, size in sizes.items()
        }
        self.tables = {rope: self._turns(rope, slots) for rope in ropes_of(config, blocks)}
        wanted, paths, end = input_offsets(self.rows)
        inputs = self["inputs"]
        self.row_facts = BufferRegion(inputs, 0, wanted)
        self.wanted = BufferRegion(inputs, wanted, paths - wanted)
        self.paths = BufferRegion(inputs, paths, end - paths)

    def __getitem__(self, name: str) -> Buffer:
        """Return a buffer by its name in `sizes.buffers`."""
        return self._buffers[name]

    def results(self, nbytes: int) -> Buffer:
        """Return the buffer that the host reads, with room for so many bytes."""
        more = nbytes - self["results"].size
        if more > 0:
            self._account.take(Purpose.WORKSPACE, more).lasts_as_long_as(self)
            self._buffers["results"] = self._gpu.buffer(nbytes, readable=True)
        return self["results"]

    def _turns(self, rope: RopeConfig, slots: int) -> Buffer:
        """Rotations for so many positions, (cos, sin) [positions, rotated / 2]."""
        turns = np.stack(rotations(rope, slots), axis=2)
        buffer = self._gpu.buffer(turns.nbytes)
        self._gpu.write(buffer, 0, turns)
        return buffer

    @property
    def activations(self) -> tuple[Buffer, Buffer, Buffer]:
        """Activations as kernels write them for the next product: fp32, codes, factors."""
        return self["floats"], self["codes"], self["factors"]
