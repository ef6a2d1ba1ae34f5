"""A run of decoder blocks on torch's CPU operators; every row has one arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import prod

import numpy as np
import torch

from engine.backend.ledger import Account, Allocation, Purpose, Reach, unlimited
from engine.backend.segment import (
    Segment,
    SegmentCache,
    SegmentOutput,
    check_head,
    features_are_own,
    own_cache,
)
from engine.backend.shared import Shared
from engine.backend.step import CHUNK, Step
from engine.backend.torch_cpu.attention import TileAttention, TileContext, TorchCache, cache_rows
from engine.backend.torch_cpu.linear import FloatLinear, FloatWeights, TileMixture
from engine.backend.torch_cpu.tiles import pin_to_one_thread, tile_rows
from engine.backend.torch_layers import DecoderBlock, Fuser, feed_forward, rms_norm
from engine.model.config import Experts, ModelConfig, RopeConfig
from engine.model.rope import rotations
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD_IDS, segment_tensors
from engine.model.weights.readable import Floats, Weights

ROWS = 64
"""Rows of results that are accounted for; a longer prefill has few logits."""

_FLOAT = 4


class TorchCpuBackend:
    """Compiles segments that run on torch's CPU operators in fp32.

    Args:
        account: where everything is entered that its segments and their caches hold.
    """

    def __init__(self, account: Account | None = None) -> None:
        self._account = account or unlimited()
        self._shared: Shared[FloatLinear] = Shared()

    @property
    def kept(self) -> Mapping[Hashable, object]:
        """Nothing: in fp32 a head has matrices of its own."""
        return {}

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> TorchSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        return TorchSegment(
            config, weights, blocks, self._account, self._shared, embed=embed, head=head
        )


class TorchSegment(Segment):
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        blocks: range,
        account: Account,
        shared: Shared[FloatLinear],
        *,
        embed: bool,
        head: bool,
    ) -> None:
        check_head(config, blocks, embed=embed, head=head)
        super().__init__(blocks)
        self._config, self._account = config, account
        needed = segment_tensors(config, blocks, embed=embed, head=head)
        if config.tie_word_embeddings:
            needed.pop(EMBEDDING, None)
        needed.pop(HEAD_IDS, None)  # logits have as many numbers as rows
        own = sum(map(prod, needed.values())) * _FLOAT
        account.take(Purpose.WEIGHTS, own).lasts_as_long_as(self)
        loader = FloatWeights(weights)
        self._blocks = [_block(config, loader, index) for index in blocks]
        self._embedding: torch.Tensor | None = None  # [vocab, d], or a view of the tied head
        self._head: FloatLinear | None = None
        self._norm: torch.Tensor | None = None
        self._tied: FloatLinear | None = None
        self._borrowed = 0
        if config.tie_word_embeddings and (embed or head):
            self._tied = self._take_tied(weights, shared)
        if head:
            self._head = self._tied or FloatLinear(weights, ("lm_head",), bias=False)
            if FINAL_NORM in needed:
                self._norm = loader.vector(FINAL_NORM)
        self._fuser = Fuser(config, config.fusion, loader) if config.fusion else None
        self._linears = tuple(loader.linears)
        if embed and self._tied is not None:
            self._embedding = self._tied.matrix.t()
        elif embed:
            self._embedding = loader.vector("model.embed_tokens.weight")
        self._rows = self._choose_tile_rows()
        self._windows = {config.blocks[index].window for index in blocks}
        self._positions = 0
        self._turns: dict[RopeConfig, tuple[torch.Tensor, torch.Tensor]] = {}
        self._rotations: Allocation | None = None
        self._reach(CHUNK)
        width = config.hidden_size + (config.head_rows if head else 0)
        self._results = Reach(lambda rows: rows * width * _FLOAT)
        entry = account.take(Purpose.WORKSPACE, ROWS * width * _FLOAT, self._results)
        entry.lasts_as_long_as(self)

    def _take_tied(self, weights: Weights, shared: Shared[FloatLinear]) -> FloatLinear:
        """The matrix that is embedding and head, which another segment may have already."""
        kept = shared.of(weights)
        tied = kept.get("tied")
        if tied is None:
            nbytes = self._config.vocab_size * self._config.hidden_size * _FLOAT
            entry = self._account.take(Purpose.WEIGHTS, nbytes)
            try:
                kept["tied"] = tied = FloatLinear(weights, ("model.embed_tokens",), bias=False)
            except BaseException:
                entry.release()
                raise
            entry.lasts_as_long_as(tied)
        else:
            self._borrowed = tied.nbytes
        return tied

    def _choose_tile_rows(self) -> int:
        products = {linear.product for linear in self._linears}
        if self._head is not None:
            products.add(self._head.product)
        every = self._config.blocks
        shapes = {(block.heads // block.kv_heads, block.head_dim) for block in every}
        return min(tile_rows(products, *shape) for shape in shapes)

    def _reach(self, positions: int) -> None:
        """Make rotations for so many positions."""
        if positions <= self._positions:
            return
        blocks = (self._config.blocks[index] for index in self.blocks)
        ropes = dict.fromkeys(block.rope for block in blocks if block.rope is not None)
        nbytes = sum(2 * positions * rope.dim * _FLOAT for rope in ropes)
        entry = self._account.take(Purpose.WORKSPACE, nbytes).lasts_as_long_as(self)
        self._turns = {rope: _rotations(rope, positions) for rope in ropes}
        if self._rotations is not None:
            self._rotations.release()
        self._rotations, self._positions = entry, positions

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on."""
        return f"cpu:torch-f32/kv-f32/tile{self._rows}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held; a tied embedding counts once, in the first segment that has it."""
        held = sum(linear.nbytes for linear in self._linears)
        head = None if self._head is None else self._head.matrix
        own = {t.data_ptr(): t.nbytes for t in (self._embedding, head) if t is not None}
        return held + sum(own.values()) - self._borrowed

    def new_cache(self, slots: int) -> TorchCache:
        """An empty cache with room for `slots` tokens."""
        self._reach(slots)
        return TorchCache(self._config, self.blocks, slots, self._account)

    @torch.inference_mode()
    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward, tile by tile: rows of a later tile see the keys of an earlier one."""
        kept = own_cache(cache, TorchCache)
        pin_to_one_thread()
        rows, width = len(step.tokens), self._config.hidden_size
        own = features_are_own(self._config, hidden, rows)
        self._results.extend(min(rows, ROWS))
        result = torch.empty(rows, width)
        taps = {tap: torch.empty(rows, width) for tap in step.taps if tap in self.blocks}
        logits: list[torch.Tensor] = []
        for start in range(0, rows, self._rows):
            stop = min(start + self._rows, rows)
            x, seen = self._enter(step, hidden, start, stop, own=own)
            tile = self._tile(step, start, stop)
            for index, block in enumerate(self._blocks):
                block.run(x, tile.rows, tile, kept, index, None if index else seen)
                if (tap := self.blocks[index]) in taps:
                    taps[tap][start:stop] = x[: stop - start]
            if self._head is not None:
                last = x
                if self._norm is not None:
                    last = rms_norm(x, self._norm, self._config.rms_norm_eps)
                if self._fuser is None:
                    x = last  # what a head puts out, its next feature, is not normed
                every = range(rows) if step.logit_rows is None else step.logit_rows
                wanted = [row - start for row in every if start <= row < stop]
                if wanted:
                    logits.append(self._logits(last, self._head)[torch.tensor(wanted)])
            result[start:stop] = x[: stop - start]
        joined = None if self._head is None else self._join(logits)
        return SegmentOutput(result.numpy(), joined, {k: v.numpy() for k, v in taps.items()})

    def _enter(
        self, step: Step, hidden: Floats | None, start: int, stop: int, *, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = torch.zeros(self._rows, self._config.hidden_size)
        if hidden is not None and self._fuser is None:
            x[: stop - start] = torch.from_numpy(hidden[start:stop])
        elif self._embedding is not None:
            embedded = self._embedding[torch.tensor(step.tokens[start:stop])]
            x[: stop - start] = embedded * self._config.embedding_scale
        else:
            raise ValueError("this segment has no embedding and was given no hidden states")
        if hidden is None or self._fuser is None:
            return x, None
        features = torch.zeros(self._rows, hidden.shape[1])
        features[: stop - start] = torch.from_numpy(hidden[start:stop])
        return self._fuser.begin(x, features, own=own)

    def _logits(self, x: torch.Tensor, head: FloatLinear) -> torch.Tensor:
        logits, cap = head(x), self._config.logit_softcap
        return logits.div_(cap).tanh_().mul_(cap) if cap else logits

    def _join(self, logits: list[torch.Tensor]) -> Floats:
        if len(logits) == 1:
            return logits[0].numpy()
        empty = torch.empty(0, self._config.head_rows)
        return torch.cat(logits).numpy() if logits else empty.numpy()

    def _tile(self, step: Step, start: int, stop: int) -> TileContext:
        rows = stop - start
        positions = np.zeros(self._rows, dtype=np.int64)
        positions[:rows] = step.positions[start:stop]
        chunks = int(positions.max()) // CHUNK + 1
        where = torch.from_numpy(positions)
        tile = TileContext(
            rows=rows,
            slot=step.first_slot + start,
            turns={
                rope: (cos[where].unsqueeze(1), sin[where].unsqueeze(1))
                for rope, (cos, sin) in self._turns.items()
            },
            shared=chunks,
            masks={window: _mask(where, chunks, window) for window in self._windows},
        )
        if step.tree is not None:
            tree = step.tree
            tile.shared = tree.base // CHUNK
            paths, row_path = np.unique(tree.row_path[start:stop], return_inverse=True)
            padded = np.zeros(self._rows, dtype=np.int64)
            padded[:rows] = row_path
            tile.paths = len(paths)
            tile.row_path = torch.from_numpy(padded)
            slots = tree.slots[paths, : chunks * CHUNK - tree.base]
            kv_heads = {self._config.blocks[index].kv_heads for index in self.blocks}
            tile.tails = {heads: torch.from_numpy(cache_rows(slots, heads)) for heads in kv_heads}
        return tile


def _block(
    config: ModelConfig, weights: FloatWeights, index: int
) -> DecoderBlock[TileContext, TorchCache]:
    def mixture(experts: Experts, prefix: str) -> TileMixture:
        return TileMixture(experts, config.activation, weights, prefix)

    attention = TileAttention(config, weights, index)
    return DecoderBlock(
        config, weights, index, attention, feed_forward(config, weights, index, mixture)
    )


def _mask(where: torch.Tensor, chunks: int, window: int) -> torch.Tensor:
    """[chunks, 1, R, 1, CHUNK]: 0 where rows at positions `where` may look, -inf elsewhere."""
    keys = torch.arange(chunks * CHUNK).view(chunks, 1, 1, 1, CHUNK)
    rows = where.view(1, 1, -1, 1, 1)
    hidden = keys > rows
    if window:
        hidden |= keys <= rows - window
    return torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)


def _rotations(rope: RopeConfig, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [positions, rotated]; the first half of sin is negated (see `_rotate`)."""
    cos, sin = rotations(rope, positions)
    both = torch.from_numpy(np.concatenate((cos, cos), axis=1))
    signed = torch.from_numpy(np.concatenate((-sin, sin), axis=1))
    return both, signed
