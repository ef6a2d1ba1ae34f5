"""A run of decoder blocks on a WebGPU device: one list of work and one wait a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.backend.ledger import Account, Purpose
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.segment import Segment, SegmentCache, SegmentOutput, own_cache
from engine.backend.shared import Shared
from engine.backend.step import CHUNK, Ints, Step
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.memory import GpuCache
from engine.backend.webgpu.network import Dispatch, Extent, GpuNetwork, GpuRoom
from engine.backend.webgpu.sizes import LOGIT_ROWS, PATH_SLOTS, TREE_ROWS, input_offsets, up
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import ModelConfig, RopeConfig
from engine.model.rope import rotations
from engine.model.weights.readable import Floats, Weights

_LARGEST_HEAD, _MOST_HEADS = 256, 256
_EVERYWHERE = 2**31 - 1


def check_served(config: ModelConfig) -> None:
    """Refuse models that there are no shaders for.

    Raises:
        NotPossible: in words.
    """
    dense = all(block.experts is None for block in config.blocks)
    small = config.head_dim <= _LARGEST_HEAD and config.num_heads <= _MOST_HEADS
    if config.fusion is not None or not dense or not small:
        raise NotPossible(
            tr("The WebGPU path does not serve models of this kind yet."),
            tr("Run the model on the CPU."),
        )


class WebGpuBackend:
    """Compiles segments for one device.

    Args:
        fmt: of all matrices.
        gpu: the device.
        account: where everything is entered.
        tile: rows that products take together at most.
    """

    def __init__(self, fmt: WeightFormat, gpu: Gpu, account: Account, tile: int) -> None:
        self._format, self._gpu, self._account, self._tile = fmt, gpu, account, tile
        self._shared: Shared[GpuMatrix] = Shared()

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> WebGpuSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked.

        Raises:
            NotPossible: there are no shaders for such a model.
            OutOfMemory: beyond the budget, or more than the device has.
        """
        check_served(config)
        alone = self._shared.of(weights)
        loader = GpuLoader(config, weights, self._format, self._gpu, self._account, alone)
        network = GpuNetwork(
            config, loader, self._gpu, self._account, blocks, embed=embed, head=head
        )
        return WebGpuSegment(config, network, self._gpu, self._account, blocks, self._tile)


@dataclass(frozen=True, slots=True)
class _Program:
    """Dispatches of a segment's forwards but for those that a cache is bound to."""

    enter: list[Dispatch]
    blocks: list[tuple[list[Dispatch], list[Dispatch]]]
    end: list[Dispatch]
    logits: list[Dispatch]


class WebGpuSegment(Segment):
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        network: GpuNetwork,
        gpu: Gpu,
        account: Account,
        blocks: range,
        tile: int,
    ) -> None:
        super().__init__(blocks)
        self._config, self._network, self._gpu = config, network, gpu
        self._account, self._tile = account, tile
        self._room: GpuRoom | None = None
        self._reach(CHUNK)

    @property
    def device(self) -> str:
        """Device name for people."""
        return self._account.ledger.name

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on."""
        names = "+".join(fmt.name.lower() for fmt in sorted(NATIVE_KINDS[k] for k in self._network.kinds))
        return f"webgpu:{names}/kv-f16"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        return self._network.weight_bytes

    def new_cache(self, slots: int) -> GpuCache:
        """An empty cache with room for `slots` tokens, taken whole.

        Raises:
            OutOfMemory: beyond the budget, or more than the device has.
            NotPossible: longer than what the device binds at once.
        """
        cache = GpuCache(self._gpu, self._account, self._config, len(self.blocks), slots)
        self._reach(slots)
        return cache

    def _reach(self, slots: int) -> GpuRoom:
        """Have buffers for sequences with so many slots."""
        slots = up(slots, CHUNK)
        if self._room is None or self._room.slots < slots:
            self._room = None  # its buffers go before larger ones come
            self._room = GpuRoom(
                self._gpu, self._account, self._config, slots, self._tables(slots),
                blocks=len(self.blocks), head=self._network.heads,
            )  # fmt: skip
            network = self._network
            self._program = _Program(
                network.enter(self._room),
                network.blocks(self._room),
                network.end(self._room),
                network.logits(self._room),
            )
        return self._room

    def _tables(self, slots: int) -> dict[RopeConfig, Buffer]:
        """Rotations for so many positions, (cos, sin) [positions, rotated / 2]."""
        tables = {}
        for rope in dict.fromkeys(self._config.blocks[index].rope for index in self.blocks):
            if rope is not None:
                turns = np.stack(rotations(rope, slots), axis=2)
                buffer = tables[rope] = self._gpu.buffer(turns.nbytes)
                self._gpu.write(buffer, 0, turns)
        return tables

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward: one list of work and one wait for each pass, which most have one of."""
        kept, rows = own_cache(cache, GpuCache), len(step.tokens)
        if hidden is None and not self._network.embeds:
            raise ValueError("this segment has no embedding and was given no hidden states")
        asked = range(rows) if step.logit_rows is None else step.logit_rows
        wanted = list(asked) if self._network.heads else []
        room = self._reach(kept.slots)
        taps = [tap for tap in step.taps if tap in self.blocks]
        size = self._config.hidden_size
        found = SegmentOutput(
            np.empty((rows, size), dtype=np.float32),
            np.empty((len(wanted), self._config.head_rows), dtype=np.float32)
            if self._network.heads
            else None,
            {tap: np.empty((rows, size), dtype=np.float32) for tap in taps},
        )
        for some in _passes(step, room.rows, wanted):
            chosen = [row for row in wanted if row in some]
            first = wanted.index(chosen[0]) if chosen else 0
            self._run(room, kept, step, some, chosen, hidden, found, first)
        return found

    def _run(
        self,
        room: GpuRoom,
        cache: GpuCache,
        step: Step,
        some: range,
        chosen: Sequence[int],
        hidden: Floats | None,
        found: SegmentOutput,
        first: int,
    ) -> None:
        """Compute some rows of a step; their logits go to rows `first`... of what is found."""
        gpu, size = self._gpu, self._config.hidden_size
        gpu.write(room["inputs"], 0, _inputs(room.rows, step, some, chosen))
        if hidden is not None:
            gpu.write(room["hidden"], 0, hidden[some.start : some.stop])
        keys = int(step.positions[some.start : some.stop].max()) + 1
        extent = Extent(len(some), len(chosen), keys, self._tile)
        outbox = _Outbox()
        results = room.results(self._result_bytes(extent, len(found.taps)))
        gpu.submit(
            lambda encoder: self._record(
                _Recorder(gpu, encoder, extent, results), room, cache, hidden is None, found, outbox
            )
        )
        read = gpu.read(results, outbox.nbytes)
        place = slice(some.start, some.stop)
        for name, begin, end in outbox.parts:
            numbers = read[begin // 4 : end // 4]
            if name == "logits" and found.logits is not None:
                logits = numbers.reshape(len(chosen), -1)
                found.logits[first : first + len(chosen)] = logits
            elif isinstance(name, int):
                found.taps[name][place] = numbers.reshape(len(some), -1)
            else:
                found.hidden[place] = numbers.reshape(len(some), -1)[:, :size]

    def _record(
        self,
        work: _Recorder,
        room: GpuRoom,
        cache: GpuCache,
        enters: bool,
        found: SegmentOutput,
        outbox: _Outbox,
    ) -> None:
        """Record a pass: its dispatches, and copies of what the host wants."""
        program, heads, extent = self._program, self._network.heads, work.extent
        rows = extent.rows * self._config.hidden_size * 4
        work.add(program.enter if enters else [])
        before = None
        for index, (first, behind), (placed, looked) in zip(
            self.blocks, program.blocks, self._attention(room, cache), strict=True
        ):
            work.add(first[:1])
            if before in found.taps:
                work.copy(room["hidden"], rows, outbox.place(before, rows))
            work.add([*first[1:], placed, looked, *behind])
            before = index
        work.add(program.end)
        if before in found.taps:
            work.copy(room["hidden"], rows, outbox.place(before, rows))
        if heads:
            normed = extent.rows * up(self._config.hidden_size, 8) * 4
            work.copy(room["normed"], normed, outbox.place("hidden", normed))
            if extent.wanted:
                work.add(program.logits)
                nbytes = extent.wanted * self._config.head_rows * 4
                work.copy(room["logits"], nbytes, outbox.place("logits", nbytes))
        else:
            work.copy(room["hidden"], rows, outbox.place("hidden", rows))
        work.end()

    def _result_bytes(self, extent: Extent, taps: int) -> int:
        """Bytes that the host reads of a pass."""
        hidden = up(self._config.hidden_size, 8) * (1 + taps) * extent.rows
        logits = extent.wanted * self._config.head_rows if self._network.heads else 0
        return (hidden + logits) * 4

    def _attention(self, room: GpuRoom, cache: GpuCache) -> list[tuple[Dispatch, Dispatch]]:
        """Dispatches that are bound to a cache, made at its first forward in these buffers."""
        found = cache.bound.get(room)
        if found is None:
            cache.bound.clear()
            found = cache.bound[room] = self._network.attention(room, cache)
        return found


class _Outbox:
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


class _Recorder:
    """Appends dispatches and copies to an encoder; copies stand between compute passes."""

    def __init__(self, gpu: Gpu, encoder: Any, extent: Extent, results: Buffer) -> None:  # noqa: ANN401
        self.extent = extent
        self._gpu, self._encoder, self._results = gpu, encoder, results
        self._work: Any = None

    def add(self, dispatches: Sequence[Dispatch]) -> None:
        """Append dispatches."""
        for dispatch in dispatches:
            if self._work is None:
                self._work = self._encoder.begin_compute_pass()
            dispatch.encode(self._gpu, self._work, self.extent)

    def copy(self, source: Buffer, nbytes: int, place: int) -> None:
        """Append a copy to what the host reads."""
        self.end()
        self._encoder.copy_buffer_to_buffer(source, 0, self._results, place, nbytes)

    def end(self) -> None:
        """End the compute pass."""
        if self._work is not None:
            self._work.end()
            self._work = None


def _passes(step: Step, most: int, wanted: Sequence[int]) -> Iterator[range]:
    """Ranges of rows that are computed together; later ones see the keys of earlier ones."""
    if step.tree is not None:
        most = min(most, TREE_ROWS)
    if len(wanted) > LOGIT_ROWS:
        most = min(most, LOGIT_ROWS)
    rows = len(step.tokens)
    for start in range(0, rows, most):
        yield range(start, min(start + most, rows))


def _inputs(most: int, step: Step, some: range, chosen: Sequence[int]) -> Ints:
    """Return the facts of a pass's rows, those whose logits are wanted, and the paths of a tree.

    A row's facts are its token, its position, its slot, and where its path begins.
    """
    wanted, paths, end = (place // 4 for place in input_offsets(most))
    count, tree = len(some), step.tree
    used = paths + 1 if tree is None else end
    words = np.zeros(used, dtype=np.int32)
    facts = words[: 4 * count].reshape(count, 4)
    facts[:, 0] = step.tokens[some.start : some.stop]
    facts[:, 1] = step.positions[some.start : some.stop]
    facts[:, 2] = range(step.first_slot + some.start, step.first_slot + some.stop)
    words[wanted : wanted + len(chosen)] = [row - some.start for row in chosen]
    words[paths] = _EVERYWHERE
    if tree is not None:
        words[paths] = tree.base
        width = tree.slots.shape[1]
        if width > PATH_SLOTS:
            raise ValueError("a tree deeper than there is room for")
        ways, places = np.unique(tree.row_path[some.start : some.stop], return_inverse=True)
        facts[:, 3] = 1 + places * width
        begin = paths + 1
        words[begin : begin + ways.size * width] = tree.slots[ways].reshape(-1)
    return words
