"""A run of decoder blocks on an accelerator; the weights are those of the CPU, bit for bit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from engine.backend.accelerator.attention import MetadataMaker
from engine.backend.accelerator.drafting import Drafting, DraftResources
from engine.backend.accelerator.driver import Driver, in_words
from engine.backend.accelerator.graphs import Graphs
from engine.backend.accelerator.input_buffers import (
    InputBuffers,
    Outbox,
    SegmentInputs,
    chunks_seen,
    doubled,
    passes,
)
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator, DeviceCache, Workspace
from engine.backend.accelerator.network import Network
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import (
    FEW_ROWS,
    TILE_ROWS,
    given_width,
    is_recorded,
    recorded_bytes,
    segment_bytes,
    working_bytes,
)
from engine.backend.ledger import Account
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.pool import CancelFlag
from engine.backend.round import Drafted, DraftRequest
from engine.backend.segment import Segment, SegmentCache, SegmentOutput, own_cache
from engine.backend.shared import NO_LOAN, Loan, Shared
from engine.backend.step import CHUNK, Step
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Weights


@dataclass(frozen=True, slots=True)
class Bench:
    """Resources that the segments of a device share."""

    driver: Driver
    products: Products
    workspace: Workspace
    graphs: Graphs
    account: Account


class AcceleratorBackend:
    """Compiles segments for one device.

    Args:
        fmt: of all matrices.
        bench: of the device, with the account where everything is entered.
        loan: what a feature head has of its target.
    """

    def __init__(self, fmt: WeightFormat, bench: Bench, loan: Loan = NO_LOAN) -> None:
        self._format, self._bench, self._loan = fmt, bench, loan
        self._shared: Shared[DeviceMatrix] = Shared()

    @property
    def kept(self) -> Mapping[Hashable, DeviceMatrix]:
        """Embedding and output matrix of the model compiled last, by their names."""
        return self._shared.kept

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> AcceleratorSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked.

        Raises:
            OutOfMemory: beyond the budget, or more than the device has.
        """
        bench = self._bench
        memory = DeviceAllocator(bench.driver, bench.account)
        alone = self._shared.of(weights)
        loader = Loader(config, weights, self._format, memory, bench.products, alone, self._loan)
        with in_words(bench.driver, bench.account.ledger):
            return AcceleratorSegment(config, loader, memory, blocks, bench, embed=embed, head=head)


@dataclass(frozen=True, slots=True)
class _Rooms:
    """Host buffers of a pass's results: fp32 [rows, d], [logits, head rows], [rows, d]."""

    hidden: torch.Tensor
    logits: torch.Tensor
    taps: dict[int, torch.Tensor]

    def part(self, rows: range, first: int, logits: int) -> _Rooms:
        """The buffers of some rows, with `logits` rows of logits from `first` on."""
        here = slice(rows.start, rows.stop)
        taps = {tap: room[here] for tap, room in self.taps.items()}
        return _Rooms(self.hidden[here], self.logits[first : first + logits], taps)


class AcceleratorSegment(Segment):
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        loader: Loader,
        memory: DeviceAllocator,
        blocks: range,
        bench: Bench,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        super().__init__(blocks)
        self._config, self._bench = config, bench
        self._ends = head
        self._kept = Workspace(bench.account)
        self._metadata = MetadataMaker(config, blocks, bench.driver.device)
        self._reach(CHUNK)
        self._network = Network(config, loader, bench.products, blocks, embed=embed, head=head)
        self._inputs = SegmentInputs(bench.driver, memory, given_width(config))
        self._outbox = Outbox(bench.driver)
        self._memory = memory
        self._drafting: Drafting | None = None

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on."""
        formats = sorted(NATIVE_KINDS[kind] for kind in self._network.kinds)
        names = "+".join(fmt.name.lower() for fmt in formats)
        own = "-triton" if self._bench.products.with_kernels else ""
        return f"{self._bench.driver.kind}{own}:{names}/kv-f16"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        return self._network.weight_bytes

    @property
    def drafts(self) -> bool:
        """Tell whether `draft` is available; a whole model drafts in one call."""
        return True

    def new_cache(self, slots: int) -> DeviceCache:
        """An empty cache with room for `slots` tokens, taken whole.

        Raises:
            OutOfMemory: beyond the budget, or more than the device has.
        """
        own, bench = self._config.typical, self._bench
        memory = DeviceAllocator(bench.driver, bench.account)
        cache = DeviceCache(memory, len(self.blocks), slots, own.kv_heads, own.head_dim)
        with in_words(bench.driver, bench.account.ledger):
            self._reach(slots)
        return cache

    def _reach(self, slots: int) -> None:
        """Reserve what forwards over sequences with so many slots need."""
        config, blocks = self._config, self.blocks
        self._kept.reserve(segment_bytes(config, blocks, slots))
        self._bench.workspace.reserve(working_bytes(config, blocks, slots, head=self._ends))
        self._bench.graphs.reserve(recorded_bytes(config, blocks, slots, head=self._ends))
        self._metadata.reach(slots)

    @torch.inference_mode()
    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """See `engine.backend.segment.Segment`; it ends soon enough without a look at `cancel`."""
        del cancel
        device_cache = own_cache(cache, DeviceCache)
        bench = self._bench
        if self._drafting is None:
            resources = DraftResources(
                self._config, bench.driver, self._memory, self._network,
                self._metadata, self._inputs, bench.graphs,
            )  # fmt: skip
            self._drafting = Drafting(resources)
        with in_words(bench.driver, bench.account.ledger):
            return self._drafting.draft(device_cache, committed, slots, request)

    @torch.inference_mode()
    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward: up to 256 rows of a chain, or 64 of a tree, at a time."""
        kept = own_cache(cache, DeviceCache)
        network, rows = self._network, len(step.tokens)
        asked = range(rows) if step.logit_rows is None else step.logit_rows
        wanted = list(asked) if network.heads else []
        taps = [tap for tap in step.taps if tap in self.blocks]
        recorded = is_recorded(self._config, self.blocks, rows)
        rooms = self._rooms(rows, len(wanted), taps, whole=recorded)
        done = 0
        with in_words(self._bench.driver, self._bench.account.ledger):
            for some in passes(step):
                chosen = [row - some.start for row in wanted if row in some]
                width = None if hidden is None else int(hidden.shape[1])
                inputs = self._inputs.buffers(step, len(some), width)
                inputs.send(step, some, chosen, kept.chunks * CHUNK, hidden)
                part = rooms if recorded else rooms.part(some, done, len(chosen))
                chunks = chunks_seen(step, some, kept.chunks)
                given = None if hidden is None else inputs.hidden
                work = partial(self._pass, inputs, given, chunks, kept, part)
                if recorded:
                    wants = len(rooms.logits), tuple(taps), hidden is None
                    key = inputs.shape, chunks, wants, self._metadata.positions
                    self._bench.graphs.run(kept.recordings, key, work)
                else:
                    work()
                done += len(chosen)
            self._bench.driver.wait()
        logits = rooms.logits[: len(wanted)].numpy() if network.heads else None
        arrays = {tap: room[:rows].numpy() for tap, room in rooms.taps.items()}
        return SegmentOutput(rooms.hidden[:rows].numpy(), logits, arrays)

    def _rooms(self, rows: int, logits: int, taps: list[int], *, whole: bool) -> _Rooms:
        """Return the host buffers of a forward's results.

        `whole`: those of all forwards that are recorded as one.
        """
        outbox, width = self._outbox, self._config.hidden_size
        if whole:
            rows = doubled(rows, 1)
            logits = rows if logits > 1 else logits
        return _Rooms(
            outbox.room("hidden", rows, width),
            outbox.room("logits", logits, self._config.head_rows),
            {tap: outbox.room(f"tap {tap}", rows, width) for tap in taps},
        )

    def _pass(
        self,
        inputs: InputBuffers,
        given: torch.Tensor | None,
        chunks: int,
        cache: DeviceCache,
        rooms: _Rooms,
    ) -> None:
        """Compute a pass from inputs to results; depends on fixed memory and shapes alone."""
        network, outbox = self._network, self._outbox

        def tap(block: int, x: torch.Tensor) -> None:
            if block in rooms.taps:
                outbox.take(rooms.taps[block], x)

        # A head that drafts on has its own outputs for features; they are narrower in "eagle3".
        own = inputs.shape.width != given_width(self._config)
        x, seen = network.enter(inputs.tokens, given, own=own)
        if self.blocks:
            metadata = self._metadata.of_inputs(inputs, chunks)
            network.advance(x, seen, inputs.shape.bucket, metadata, cache, tap)
        x, last = network.end(x)
        outbox.take(rooms.hidden, x)
        for start in range(0, len(rooms.logits), FEW_ROWS):
            stop = min(start + FEW_ROWS, len(rooms.logits))
            count = doubled(stop - start, TILE_ROWS)
            found = network.logits(last.index_select(0, inputs.wanted[start : start + count]))
            outbox.take(rooms.logits[start:stop], found)
