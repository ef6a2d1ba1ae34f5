"""Keys and values of one sequence on a WebGPU device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from engine.backend.ledger import Account, Purpose
from engine.backend.segment import SegmentCache, SlotCache, own_cache
from engine.backend.step import CHUNK
from engine.backend.webgpu.gpu import Buffer, Gpu, Group
from engine.backend.webgpu.sizes import cache_bytes, moved_bytes, padded_head
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import ModelConfig


class GpuCache(SlotCache):
    """Keys [chunks, kv heads, dim / 8, CHUNK, 8], values [chunks, kv heads, CHUNK, dim] of blocks.

    Numbers are fp16. Slot s lies in chunk s // CHUNK at offset s % CHUNK; heads are padded to whole
    words of 16 bytes.

    Attributes:
        slots: tokens that there is room for.
        keys, values: a buffer for each block.
        bound: what a segment's dispatches on it are, by the buffers that they work in.
    """

    def __init__(
        self, gpu: Gpu, account: Account, config: ModelConfig, blocks: int, slots: int
    ) -> None:
        self._gpu = gpu
        self.slots = -(-slots // CHUNK) * CHUNK
        self._chunk_bytes = CHUNK * config.num_kv_heads * padded_head(config) * 2
        each = self.slots // CHUNK * self._chunk_bytes
        if each > gpu.most_bound:
            raise NotPossible(
                tr("A context of {tokens} tokens is more than this GPU takes at once.").format(
                    tokens=slots
                ),
                tr("Choose a shorter context."),
            )
        self._nbytes = cache_bytes(config, blocks, slots)
        account.take(Purpose.KV, self._nbytes).lasts_as_long_as(self)
        self.keys = [gpu.buffer(each) for _ in range(blocks)]
        self.values = [gpu.buffer(each) for _ in range(blocks)]
        self.bound: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
        self._moves: list[Group] = []
        if blocks:
            self._moved: Buffer = gpu.buffer(moved_bytes(slots))
            self._kv_heads = config.num_kv_heads
            shape = gpu.uniform(account, [config.num_kv_heads, padded_head(config)])
            kernel = self._kernel = gpu.kernel("move")
            self._moves = [
                kernel.group(shape, self._moved, *own)
                for own in zip(self.keys, self.values, strict=True)
            ]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._nbytes

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        source = own_cache(other, GpuCache)
        nbytes = -(-slots // CHUNK) * self._chunk_bytes
        if not nbytes:
            return
        pairs = [*zip(source.keys, self.keys, strict=True)]
        pairs += zip(source.values, self.values, strict=True)

        def record(encoder: Any) -> None:  # noqa: ANN401
            for theirs, ours in pairs:
                encoder.copy_buffer_to_buffer(theirs, 0, ours, 0, nbytes)

        self._gpu.submit(record)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ... in every block."""
        if not self._moves:
            return
        words = np.array([len(sources), target, *sources], dtype=np.uint32)
        self._gpu.write(self._moved, 0, words)

        def record(encoder: Any) -> None:  # noqa: ANN401
            work = encoder.begin_compute_pass()
            work.set_pipeline(self._kernel.pipeline(1))
            for group in self._moves:
                work.set_bind_group(0, group)
                work.dispatch_workgroups(self._kv_heads)
            work.end()

        self._gpu.submit(record)
