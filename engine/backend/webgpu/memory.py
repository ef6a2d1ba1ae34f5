"""Keys, values and states of one sequence on a WebGPU device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from engine.backend.ledger import Account, Purpose
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.state_cache import StateCache
from engine.backend.step import CHUNK
from engine.backend.webgpu.gpu import Buffer, Gpu, Group
from engine.backend.webgpu.sizes import (
    SNAPSHOTS,
    STATE_ROWS,
    cache_bytes,
    chunk_bytes,
    kept_numbers,
    kept_rows,
    moved_bytes,
    padded_head,
    snapshot_numbers,
    state_numbers,
)
from engine.backend.webgpu.states import StateRows
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import Delta, ModelConfig


@dataclass(frozen=True, slots=True)
class LayerState:
    """Buffers of a layer that keeps a state: fp32.

    Attributes:
        state: [value heads, columns / 16, key dim, 16].
        rows: rows behind it, at the places that `StateRows` has: what the convolution sees, beta
            and alpha.
        saved: snapshots one after the other, each a state and the rows that come before the next.
    """

    delta: Delta
    state: Buffer
    rows: Buffer
    saved: Buffer

    @classmethod
    def new(cls, gpu: Gpu, delta: Delta) -> LayerState:
        """Take the memory of a layer."""
        numbers = (
            state_numbers(delta),
            kept_rows(delta) * kept_numbers(delta),
            SNAPSHOTS * snapshot_numbers(delta),
        )
        return cls(delta, *(gpu.buffer(4 * count) for count in numbers))

    def copy(self, encoder: Any, place: int, rows: Sequence[int], *, save: bool) -> None:  # noqa: ANN401
        """Record copies to a snapshot, or from it.

        Args:
            encoder: of the commands.
            place: which snapshot.
            rows: places of the rows before the next; negative ones are no rows.
            save: to it.
        """
        state, row = 4 * state_numbers(self.delta), 4 * kept_numbers(self.delta)
        begin = place * 4 * snapshot_numbers(self.delta)
        parts = [(self.state, 0, begin, state)]
        for index, own in enumerate(rows):
            if own >= 0:
                parts.append((self.rows, own * row, begin + state + index * row, row))
        for here, at, there, nbytes in parts:
            if save:
                encoder.copy_buffer_to_buffer(here, at, self.saved, there, nbytes)
            else:
                encoder.copy_buffer_to_buffer(self.saved, there, here, at, nbytes)


class GpuCache(StateCache[int]):
    """Keys [chunks, kv heads, dim / 8, CHUNK, 8], values [chunks, kv heads, CHUNK, dim] of blocks.

    Numbers are fp16. Slot s lies in chunk s // CHUNK at offset s % CHUNK; heads are padded to whole
    words of 16 bytes. Blocks that keep a state have that instead; snapshots of all of them lie at a
    place that was taken in the beginning.

    Args:
        gpu: the device.
        account: where all of it is entered.
        config: of the model.
        blocks: which of its blocks.
        slots: tokens that there is room for.
        take_in: takes so many committed tokens of this cache into its states.

    Attributes:
        slots: tokens that there is room for.
        keys, values: a buffer for each block that attends.
        states: of each block that keeps one.
        rows: where the rows behind the states lie.
        bound: what a segment's dispatches on it are, by the buffers that they work in.
    """

    def __init__(
        self,
        gpu: Gpu,
        account: Account,
        config: ModelConfig,
        blocks: range,
        slots: int,
        take_in: Callable[[GpuCache, int], None],
    ) -> None:
        kept = [config.blocks[index] for index in blocks]
        layers = [block.delta for block in kept if block.delta is not None]
        own = [block for block in kept if block.stores_kv]
        super().__init__(STATE_ROWS if layers else 0)
        self._gpu, self._take_in = gpu, take_in
        self.slots = -(-slots // CHUNK) * CHUNK
        self._chunk_bytes = [chunk_bytes(block) for block in own]
        sizes = [self.slots // CHUNK * each for each in self._chunk_bytes]
        if max(sizes, default=0) > gpu.most_bound:
            raise NotPossible(
                tr("A context of {tokens} tokens is more than this GPU takes at once.").format(
                    tokens=slots
                ),
                tr("Choose a shorter context."),
            )
        self._nbytes = cache_bytes(config, blocks, slots)
        account.take(Purpose.KV, self._nbytes).lasts_as_long_as(self)
        self.keys = [gpu.buffer(size) for size in sizes]
        self.values = [gpu.buffer(size) for size in sizes]
        self.states = [LayerState.new(gpu, delta) for delta in layers]
        self.rows = StateRows(max((delta.width - 1 for delta in layers), default=0))
        self.bound: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
        self._moves: list[tuple[Group, int]] = []
        if own:
            self._moved: Buffer = gpu.buffer(moved_bytes(slots))
            kernel = self._kernel = gpu.kernel("move")
            for block, *both in zip(own, self.keys, self.values, strict=True):
                shape = gpu.uniform(account, (block.kv_heads, padded_head(block)))
                self._moves.append((kernel.group(shape, self._moved, *both), block.kv_heads))

    @property
    def nbytes(self) -> int:
        """Bytes held, with room for snapshots."""
        return self._nbytes

    @property
    def snapshot_bytes(self) -> int:
        """0: there is room for all of them from the first."""
        return 0

    @property
    def past(self) -> int:
        """Tokens that the states have taken in."""
        return self.rows.past

    def most_snapshots(self, budget: int) -> int:  # noqa: ARG002 - they cost nothing more
        """Return how many snapshots there may be."""
        return SNAPSHOTS

    def save(self, slots: int) -> int:
        """Take all committed tokens into the states, and return where a copy of those lies."""
        self._take_in(self, slots)
        place = next(each for each in range(SNAPSHOTS) if each not in self.snapshots.values())
        self._copy(place, self.rows.seen(), save=True)
        return place

    def restore(self, slots: int, kept: int | None) -> None:
        """Go back to states that were kept; None: to the beginning."""
        self.rows.go_to(slots)
        if kept is not None:
            self._copy(kept, self.rows.seen(), save=False)

    def _copy(self, place: int, rows: Sequence[int], *, save: bool) -> None:
        def record(encoder: Any) -> None:  # noqa: ANN401
            for layer in self.states:
                layer.copy(encoder, place, rows, save=save)

        self._gpu.submit(record)

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache, a number it can go back to."""
        source = own_cache(other, GpuCache)
        if not slots:
            self.crop(0)
            return
        every = zip([*source.keys, *source.values], [*self.keys, *self.values], strict=True)
        pairs = [
            (theirs, ours, -(-slots // CHUNK) * nbytes)
            for (theirs, ours), nbytes in zip(every, 2 * self._chunk_bytes, strict=True)
        ]
        for theirs, ours in zip(source.states, self.states, strict=True):
            both = (theirs.state, ours.state), (theirs.rows, ours.rows), (theirs.saved, ours.saved)
            pairs += [(one, another, one.size) for one, another in both]

        def record(encoder: Any) -> None:  # noqa: ANN401
            for one, another, count in pairs:
                encoder.copy_buffer_to_buffer(one, 0, another, 0, count)

        self._gpu.submit(record)
        self.rows.copy(source.rows)
        self.snapshots = dict(source.snapshots)
        self.crop(slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ... in every block."""
        if self.states:
            self.rows.move(sources, target)
        if not self._moves:
            return
        words = np.array([len(sources), target, *sources], dtype=np.uint32)
        self._gpu.write(self._moved, 0, words)

        def record(encoder: Any) -> None:  # noqa: ANN401
            work = encoder.begin_compute_pass()
            work.set_pipeline(self._kernel.pipeline(1))
            for group, kv_heads in self._moves:
                work.set_bind_group(0, group)
                work.dispatch_workgroups(kv_heads)
            work.end()

        self._gpu.submit(record)
