"""A run of decoder blocks on a WebGPU device: one list of work and one wait a pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.drafted_levels import DRAFT_LEVELS, read_levels
from engine.backend.ledger import Account
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Drafted, DraftRequest, Verified, VerifyRequest
from engine.backend.segment import (
    Segment,
    SegmentCache,
    SegmentOutput,
    check_head,
    features_are_own,
    keep_path,
    own_cache,
)
from engine.backend.shared import NO_LOAN, Loan, Shared
from engine.backend.step import CHUNK, Step
from engine.backend.webgpu.drawing import DeviceDraws, walked
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.memory import GpuCache
from engine.backend.webgpu.network import GpuNetwork, TreeSteps
from engine.backend.webgpu.passes import GpuPass, ReadBack, Recorder, passes
from engine.backend.webgpu.room import GpuRoom
from engine.backend.webgpu.served import why_not_served
from engine.backend.webgpu.sizes import DRAFT_WIDTH, DRAWN, TICKS_BYTES, level_numbers, up
from engine.backend.webgpu.stages import Dispatch, Extent
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Weights


class WebGpuBackend:
    """Compiles segments for one device.

    Args:
        fmt: of all matrices.
        gpu: the device.
        account: where everything is entered.
        tile: rows that products take together at most.
        loan: what a feature head has of its target.
    """

    def __init__(
        self, fmt: WeightFormat, gpu: Gpu, account: Account, tile: int, loan: Loan = NO_LOAN
    ) -> None:
        self._format, self._gpu, self._account, self._tile = fmt, gpu, account, tile
        self._loan = loan
        self._shared: Shared[GpuMatrix] = Shared()

    @property
    def kept(self) -> Mapping[Hashable, GpuMatrix]:
        """Embedding and output matrix of the model compiled last, by their names."""
        return self._shared.kept

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> WebGpuSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked.

        Raises:
            NotPossible: there are no shaders for such a model.
            OutOfMemory: beyond the budget, or more than the device has.
        """
        if reason := why_not_served(config):
            raise NotPossible(
                tr("{device} cannot run this model: {reason}.").format(
                    device=self._account.ledger.name, reason=reason
                ),
                tr("Run the model on the CPU."),
            )
        check_head(config, blocks, embed=embed, head=head)
        gpu, account, alone = self._gpu, self._account, self._shared.of(weights)
        with gpu.in_words():
            loader = GpuLoader(config, weights, self._format, gpu, account, alone, self._loan)
            network = GpuNetwork(config, loader, gpu, account, blocks, embed=embed, head=head)
            return WebGpuSegment(config, network, gpu, account, blocks, self._tile)


@dataclass(frozen=True, slots=True)
class _Program:
    """Buffers of a segment's forwards, and dispatches but for those that a cache is bound to."""

    room: GpuRoom
    enter: list[Dispatch]
    enter_own: list[Dispatch]
    blocks: list[tuple[list[Dispatch], list[Dispatch]]]
    end: list[Dispatch]
    logits: list[Dispatch]
    draws: list[Dispatch]
    growing: dict[int, TreeSteps] = field(default_factory=dict)

    @property
    def every(self) -> Iterator[Dispatch]:
        """All dispatches."""
        lists = chain.from_iterable(self.blocks)
        ends = self.end, self.logits, self.draws
        return chain.from_iterable((self.enter, self.enter_own, *lists, *ends))


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
        self._program: _Program | None = None
        self._reach(CHUNK)

    @property
    def drafts(self) -> bool:
        """Tell whether `draft` is available; a whole model without states drafts in one call."""
        whole = len(self.blocks) == self._config.num_layers and not self._config.recurrent
        return whole and self._network.embeds and self._network.heads

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on."""
        names = "+".join(
            fmt.name.lower() for fmt in sorted(NATIVE_KINDS[k] for k in self._network.kinds)
        )
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
        with self._gpu.in_words():
            cache = GpuCache(
                self._gpu, self._account, self._config, self.blocks, slots, self._take_in
            )
            self._reach(slots)
        return cache

    def _reach(self, slots: int) -> _Program:
        """Have buffers for sequences with so many slots."""
        slots = up(slots, CHUNK)
        if self._program is not None and self._program.room.slots >= slots:
            return self._program
        self._program = None  # its buffers go before larger ones come
        network, heads = self._network, self._network.heads
        room = GpuRoom(self._gpu, self._account, self._config, self.blocks, slots, head=heads)
        program = _Program(
            room,
            network.enter(room),
            network.enter(room, own=True) if network.fuser else [],
            network.blocks(room),
            network.end(room),
            network.logits(room),
            network.draws(room),
        )
        for dispatch in program.every:
            dispatch.compile(self._tile)
        self._program = program
        return program

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward: one list of work and one wait for each pass, which most have one of."""
        return self._compute(step, cache, hidden)[0]

    def verify(
        self,
        cache: SegmentCache,
        committed: int,
        draws: NativeDraws,
        request: VerifyRequest,
        *,
        hidden: Floats | None = None,
        taps: tuple[int, ...] | None = None,
    ) -> tuple[Verified, SegmentOutput | None]:
        """See `Segment`; the device draws where `DeviceDraws.of` says that it can.

        Then no logits come back: the tokens and their probabilities do.
        """
        asked = DeviceDraws.of(draws, request, committed) if self._network.heads else None
        if asked is None:
            return super().verify(cache, committed, draws, request, hidden=hidden, taps=taps)
        step = Step(request.nodes, request.parents, committed, taps=taps or (), feeds=taps == ())
        output, drawn = self._compute(step, cache, hidden, asked)
        verified = walked(request, drawn)
        if verified is None:  # once in some thousand draws
            return super().verify(cache, committed, draws, request, hidden=hidden, taps=taps)
        keep_path(cache, committed, verified.path)
        return verified, None if taps is None else output

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """See `engine.backend.segment.Segment`; all levels are one list of work and one wait."""
        pending, budget, features = request.pending, request.budget, request.features
        kept, count = own_cache(cache, GpuCache), len(pending)
        if features_are_own(self._config, features, count):
            raise ValueError("drafting begins with the target's features")
        width = min(budget.width, DRAFT_WIDTH, self._config.head_rows)
        start = committed + count
        if not pending or width < 1 or budget.depth < 1 or start > slots:
            raise ValueError("there is nothing to draft, or no room for it")
        if cancel:
            return None
        depth = min(budget.depth, DRAFT_LEVELS, 1 + (slots - start) // width)
        gpu, program = self._gpu, self._reach(kept.slots)
        step = Step(pending, range(-1, count - 1), committed)
        draws, nbytes = DeviceDraws.of_draft(request, start), depth * level_numbers(width) * 4
        results = program.room.results(nbytes)
        for part in passes(step, program.room.rows, [count - 1], features, own=False, draws=draws):
            extent = self._send(program, kept, part)

            def record(encoder: Any, part: GpuPass = part, extent: Extent = extent) -> None:  # noqa: ANN401
                work = Recorder(gpu, encoder, extent, results)
                work.add(self._enter(program, part))
                self._advance(work, program, kept)
                if part.wanted:
                    self._grow(work, program, kept, start, width, depth)
                    work.copy(program.room["tree"], nbytes, 0)
                work.end()

            gpu.submit(record)
        levels = gpu.read(results, nbytes).reshape(depth, -1)
        expanded, tokens, scores = np.split(levels, [width, width + width * width], axis=1)
        return read_levels(
            pending[-1],
            tokens.reshape(-1).view(np.int32),
            scores.reshape(-1),
            np.ascontiguousarray(expanded[:-1]).view(np.int32),
            budget.nodes,
        )

    def _grow(
        self, work: Recorder, program: _Program, cache: GpuCache, start: int, width: int, depth: int
    ) -> None:
        """Record a tree's levels, of which the first one's rows are computed."""
        room, steps = program.room, program.growing.get(width)
        if steps is None:
            steps = program.growing[width] = self._network.growing(room, width)
        for level in range(depth):
            if level:
                if steps.follow is not None and self._network.fuser is not None:
                    nbytes = work.extent.rows * self._config.hidden_size * 4
                    outputs = room["normed" if self._network.returns_normed else "hidden"]
                    work.put(outputs, nbytes, self._network.fuser.own_place(room))
                    work.add([steps.follow])
                work.extent = Extent(width, width, start + level, self._tile)
                work.add(program.enter if steps.follow is None else program.enter_own)
                self._advance(work, program, cache)
            work.add([*program.logits, *steps.grow])

    def _compute(
        self,
        step: Step,
        cache: SegmentCache,
        hidden: Floats | None,
        draws: DeviceDraws | None = None,
    ) -> tuple[SegmentOutput, NDArray[np.uint32]]:
        """Return a forward's output, and what the device drew where `draws` says that it draws."""
        kept, rows = own_cache(cache, GpuCache), len(step.tokens)
        if hidden is None and not self._network.embeds:
            raise ValueError("this segment has no embedding and was given no hidden states")
        own = features_are_own(self._config, hidden, rows)
        logit_rows = range(rows) if step.logit_rows is None else step.logit_rows
        wanted = list(logit_rows) if self._network.heads else []
        program = self._reach(kept.slots)
        taps = [tap for tap in step.taps if tap in self.blocks]
        size = self._config.hidden_size
        found = SegmentOutput(
            np.empty((rows, size), dtype=np.float32),
            np.empty((len(wanted), self._config.head_rows), dtype=np.float32)
            if self._network.heads and draws is None
            else None,
            {tap: np.empty((rows, size), dtype=np.float32) for tap in taps},
        )
        drawn = np.zeros((len(draws.asked) if draws else 0, DRAWN), dtype=np.uint32)
        for part in passes(step, program.room.rows, wanted, hidden, own=own, draws=draws):
            self._run(program, kept, part, found, drawn)
        return found, drawn

    def _run(
        self,
        program: _Program,
        cache: GpuCache,
        part: GpuPass,
        found: SegmentOutput,
        drawn: NDArray[np.uint32],
    ) -> None:
        """Compute a pass; its results go to their rows of what is found."""
        gpu, room, some = self._gpu, program.room, part.rows
        begun = perf_counter()
        extent, outbox = self._send(program, cache, part), ReadBack()
        results = room.results(self._result_bytes(extent, len(found.taps)))
        gpu.submit(
            lambda encoder: self._record(
                Recorder(gpu, encoder, extent, results), program, cache, part, found.taps, outbox
            )
        )
        sent = perf_counter()
        read = gpu.read(results, outbox.nbytes)
        ended = perf_counter()
        for name, begin, end in outbox.parts:
            numbers = read[begin // 4 : end // 4]
            if name == "ticks" and gpu.clock is not None:
                gpu.transfers.note(begun, sent)
                gpu.transfers.note(min(sent + gpu.clock.seconds(numbers), ended), ended)
                continue
            place = slice(part.first_wanted, part.first_wanted + len(part.wanted))
            if name == "drawn":
                drawn[place] = numbers.view(np.uint32).reshape(-1, DRAWN)
                continue
            if name == "logits" and found.logits is not None:
                found.logits[place] = numbers.reshape(len(part.wanted), -1)
                continue
            rows = numbers.reshape(len(some), -1)[:, : self._config.hidden_size]
            kept = found.taps[name] if isinstance(name, int) else found.hidden
            kept[some.start : some.stop] = rows

    def _send(self, program: _Program, cache: GpuCache, part: GpuPass) -> Extent:
        """Copy what a pass is given to the device, and return its extent."""
        gpu, room = self._gpu, program.room
        gpu.write(room["inputs"], 0, part.inputs(room.rows))
        if part.draws is not None and part.draws.heard is not None:
            gpu.write(room["heard"], 0, part.draws.heard)
        if part.hidden is not None:
            gpu.write(self._given(room, own=part.own), 0, part.hidden)
        nodes = 0
        if cache.states:
            words, nodes = cache.rows.behind(part.step, part.rows)
            gpu.write(room["walk"], 0, words)
        rows, wanted, chain = len(part.rows), len(part.wanted), part.step.tree is None
        return Extent(rows, wanted, part.keys, self._tile, chain=chain, nodes=nodes)

    def _take_in(self, cache: GpuCache, committed: int) -> None:
        """Take so many committed tokens into the states of a cache."""
        room = self._reach(cache.slots).room
        words, nodes = cache.rows.taken_in(committed)
        if not nodes:
            return
        self._gpu.write(room["walk"], 0, words)
        extent = Extent(0, 0, 0, self._tile, nodes=nodes)

        def record(encoder: Any) -> None:  # noqa: ANN401
            work = Recorder(self._gpu, encoder, extent, room["results"])
            work.add(self._network.taking_in(self._mixers(room, cache)))
            work.end()

        self._gpu.submit(record)

    def _record(
        self,
        work: Recorder,
        program: _Program,
        cache: GpuCache,
        part: GpuPass,
        taps: Collection[int],
        outbox: ReadBack,
    ) -> None:
        """Record a pass: its dispatches, and copies of what the host wants."""
        room, heads, extent = program.room, self._network.heads, work.extent
        rows = extent.rows * self._config.hidden_size * 4

        def tap(block: int) -> None:
            if block in taps:
                work.copy(room["hidden"], rows, outbox.place(block, rows))

        work.add(self._enter(program, part))
        self._advance(work, program, cache, tap)
        if part.draws is not None and not part.step.feeds:
            pass  # who lets the device draw, wants no more of the last block
        elif self._network.returns_normed:
            normed = extent.rows * up(self._config.hidden_size, 8) * 4
            work.copy(room["normed"], normed, outbox.place("hidden", normed))
        else:
            work.copy(room["hidden"], rows, outbox.place("hidden", rows))
        if heads and extent.wanted:
            work.add(program.logits)
            name, each = "logits", self._config.head_rows
            if part.draws is not None:
                work.add(program.draws[not part.draws.filtered :])
                name, each = "drawn", DRAWN
            nbytes = extent.wanted * each * 4
            work.copy(room[name], nbytes, outbox.place(name, nbytes))
        work.end()
        work.bring_ticks(outbox)

    def _advance(
        self,
        work: Recorder,
        program: _Program,
        cache: GpuCache,
        tap: Callable[[int], None] = lambda _block: None,
    ) -> None:
        """Record the blocks and the end of the hidden states; `tap` sees each block's output."""
        before = -1
        for index, (first, behind), mixer in zip(
            self.blocks, program.blocks, self._mixers(program.room, cache), strict=True
        ):
            work.add(first[:1])
            tap(before)
            work.add([*first[1:], *mixer, *behind])
            before = index
        work.add(program.end)
        tap(before)

    def _enter(self, program: _Program, part: GpuPass) -> list[Dispatch]:
        """Dispatches that a pass begins with."""
        if self._network.fuser is None:
            return [] if part.hidden is not None else program.enter
        return program.enter_own if part.own else program.enter

    def _given(self, room: GpuRoom, *, own: bool) -> Buffer:
        """Return where hidden states, features or a head's own outputs go."""
        fuser = self._network.fuser
        if fuser is None:
            return room["hidden"]
        return fuser.own_place(room) if own else room["features"]

    def _result_bytes(self, extent: Extent, taps: int) -> int:
        """Bytes that the host reads of a pass."""
        hidden = up(self._config.hidden_size, 8) * (1 + taps) * extent.rows
        logits = extent.wanted * self._config.head_rows if self._network.heads else 0
        return (hidden + logits) * 4 + TICKS_BYTES

    def _mixers(self, room: GpuRoom, cache: GpuCache) -> list[list[Dispatch]]:
        """Dispatches that are bound to a cache, made at its first forward in these buffers."""
        found = cache.bound.get(room)
        if found is None:
            cache.bound.clear()
            found = cache.bound[room] = self._network.mixers(room, cache)
        return found
