"""A run of decoder blocks on an accelerator; the weights are those of the CPU, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from engine.backend.accelerator.block import Block
from engine.backend.accelerator.cache import DeviceCache
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.frame import Frame, FrameShape, doubled
from engine.backend.accelerator.linear import Linear, rms_norm
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.memory import DeviceMemory
from engine.backend.accelerator.outbox import Outbox
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.scene import SceneMaker
from engine.backend.accelerator.sizes import (
    BUCKETS,
    FEW_ROWS,
    FEWEST_CHUNKS,
    TAIL,
    TILE_ROWS,
    frame_bytes,
    segment_bytes,
    working_bytes,
)
from engine.backend.accelerator.troubles import in_words
from engine.backend.accelerator.workspace import Workspace
from engine.backend.ledger import Account, Purpose
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.segment import Floats, SegmentCache, SegmentOutput, Weights
from engine.backend.step import CHUNK, Step
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD


@dataclass(frozen=True, slots=True)
class Bench:
    """What the segments of a device share."""

    driver: Driver
    products: Products
    workspace: Workspace
    account: Account


class AcceleratorBackend:
    """Compiles segments for one device.

    Args:
        fmt: of all matrices.
        bench: of the device, with the account where everything is entered.
    """

    def __init__(self, fmt: WeightFormat, bench: Bench) -> None:
        self._format, self._bench = fmt, bench

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> AcceleratorSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked.

        Raises:
            OutOfMemory: beyond the budget, or more than the device has.
        """
        bench = self._bench
        memory = DeviceMemory(bench.driver, bench.account)
        loader = Loader(config, weights, self._format, memory, bench.products)
        with in_words(bench.driver, bench.account.ledger):
            return AcceleratorSegment(config, loader, memory, blocks, bench, embed=embed, head=head)


class AcceleratorSegment:
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        loader: Loader,
        memory: DeviceMemory,
        blocks: range,
        bench: Bench,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        self._config, self._range, self._bench, self._memory = config, blocks, bench, memory
        self._ends = head
        self._kept = Workspace(bench.account)
        self._scenes = SceneMaker(config, blocks, bench.driver.device)
        self._reach(CHUNK)
        self._blocks = [Block(config, loader, bench.products, index) for index in blocks]
        self._head: Linear | None = None
        self._norm: torch.Tensor | None = None
        self._embedding: DeviceMatrix | None = None
        if head:
            matrix = loader.matrix(EMBEDDING if config.tie_word_embeddings else HEAD)
            self._head = Linear(bench.products, [matrix], None)
            self._norm = loader.vector(FINAL_NORM)
            self._embedding = matrix if embed and config.tie_word_embeddings else None
        if embed and self._embedding is None:
            self._embedding = loader.matrix(EMBEDDING)
        self._kinds = {matrix.kind for matrix in loader.matrices}
        held = [matrix.nbytes for matrix in loader.matrices] + [v.nbytes for v in loader.vectors]
        self._weight_bytes = sum(held)
        self._frames: dict[FrameShape, Frame] = {}
        self._outbox = Outbox(pinned=bench.driver.computes_apart)

    @property
    def blocks(self) -> range:
        """The decoder blocks it computes."""
        return self._range

    @property
    def device(self) -> str:
        """Device name for people."""
        return self._bench.account.ledger.name

    @property
    def signature(self) -> str:
        """What the arithmetic depends on."""
        formats = sorted(NATIVE_KINDS[kind] for kind in self._kinds)
        names = "+".join(fmt.name.lower() for fmt in formats)
        return f"{self._bench.driver.kind}:{names}/kv-f16"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        return self._weight_bytes

    @property
    def mapped_bytes(self) -> int:
        """None: all weights are on the device."""
        return 0

    def new_cache(self, slots: int) -> DeviceCache:
        """An empty cache with room for `slots` tokens, taken whole.

        Raises:
            OutOfMemory: beyond the budget, or more than the device has.
        """
        config, bench = self._config, self._bench
        heads, dim = config.num_kv_heads, config.head_dim
        memory = DeviceMemory(bench.driver, bench.account)
        cache = DeviceCache(memory, len(self._blocks), slots, heads, dim)
        with in_words(bench.driver, bench.account.ledger):
            self._reach(slots)
        return cache

    def _reach(self, slots: int) -> None:
        """Be able to compute sequences with so many slots."""
        working = working_bytes(self._config, self._range, slots, head=self._ends)
        self._kept.reserve(segment_bytes(self._config, self._range, slots))
        self._bench.workspace.reserve(working)
        self._scenes.reach(slots)

    @torch.inference_mode()
    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward: up to 256 rows of a chain, or 64 of a tree, at a time."""
        if not isinstance(cache, DeviceCache):
            raise TypeError("the cache belongs to another backend")
        if hidden is None and self._embedding is None:
            raise ValueError("this segment has no embedding and was given no hidden states")
        rows, outbox = len(step.tokens), self._outbox
        asked = range(rows) if step.logit_rows is None else step.logit_rows
        wanted = list(asked) if self._head is not None else []
        out = outbox.room("hidden", rows, self._config.hidden_size)
        logits = outbox.room("logits", len(wanted), self._config.vocab_size)
        taps = {
            tap: outbox.room(f"tap {tap}", rows, self._config.hidden_size)
            for tap in step.taps
            if tap in self._range
        }
        done = 0
        with in_words(self._bench.driver, self._bench.account.ledger):
            for some in _passes(step):
                chosen = [row - some.start for row in wanted if row in some]
                frame = self._frame(step, len(some))
                frame.send(step, some, chosen, cache.chunks * CHUNK, hidden)
                x = self._enter(frame, embed=hidden is None)
                tapped = {tap: place[some.start : some.stop] for tap, place in taps.items()}
                self._advance(x, frame, _chunks(step, some, cache), cache, tapped)
                if self._norm is not None:
                    x = rms_norm(x, self._norm, self._config.rms_norm_eps)
                outbox.take(out[some.start : some.stop], x)
                for start in range(0, len(chosen), FEW_ROWS):
                    stop = min(start + FEW_ROWS, len(chosen))
                    found = self._logits(x, frame, start, stop)
                    outbox.take(logits[done + start : done + stop], found)
                done += len(chosen)
            self._bench.driver.wait()
        arrays = {tap: tensor.numpy() for tap, tensor in taps.items()}
        return SegmentOutput(out.numpy(), None if self._head is None else logits.numpy(), arrays)

    def _frame(self, step: Step, rows: int) -> Frame:
        """Fixed memory for a forward of this shape."""
        tail = 0 if step.tree is None else step.tree.slots.shape[1] // CHUNK
        shape = FrameShape.of(rows, tail)
        frame = self._frames.get(shape)
        if frame is None:
            width = self._config.hidden_size
            if shape.tail > TAIL:
                self._memory.enter(Purpose.WORKSPACE, frame_bytes(shape.bucket, shape.tail, width))
            frame = self._frames[shape] = Frame(self._bench.driver, shape, width)
        return frame

    def _enter(self, frame: Frame, *, embed: bool) -> torch.Tensor:
        """What the blocks begin with, fp32 [rows, d]."""
        x = torch.empty_like(frame.hidden)
        if not embed or self._embedding is None:
            return x.copy_(frame.hidden)
        self._bench.products.look_up(self._embedding, frame.tokens, x)
        return x.mul_(self._config.embedding_scale)

    def _advance(
        self,
        x: torch.Tensor,
        frame: Frame,
        chunks: int,
        cache: DeviceCache,
        taps: dict[int, torch.Tensor],
    ) -> None:
        """Through all blocks; what is tapped is brought to the host."""
        if not self._blocks:
            return
        scene = self._scenes.scene(frame, chunks)
        for index, block in enumerate(self._blocks):
            block.run(x, frame.shape.bucket, scene, cache, index)
            if (tap := self._range[index]) in taps:
                self._outbox.take(taps[tap], x)

    def _logits(self, x: torch.Tensor, frame: Frame, start: int, stop: int) -> torch.Tensor:
        """Of the wanted rows start..stop-1 and some more, of which there are 16, 32 or 64."""
        if self._head is None:
            raise ValueError("this segment has no head")
        count = doubled(stop - start, TILE_ROWS)
        logits = self._head(x.index_select(0, frame.wanted[start : start + count]))
        cap = self._config.logit_softcap
        return logits.div_(cap).tanh_().mul_(cap) if cap else logits


def _passes(step: Step) -> Iterator[range]:
    """Rows that are computed together; later ones see the keys of earlier ones."""
    most = BUCKETS[-1] if step.tree is None else FEW_ROWS
    rows = len(step.tokens)
    for start in range(0, rows, most):
        yield range(start, min(start + most, rows))


def _chunks(step: Step, rows: range, cache: DeviceCache) -> int:
    """Chunks of keys that rows look at where they lie in the cache."""
    if step.tree is None:
        needed = (step.first_slot + rows.stop - 1) // CHUNK + 1
    else:
        needed = step.tree.base // CHUNK
    return min(doubled(needed, FEWEST_CHUNKS), cache.chunks)
