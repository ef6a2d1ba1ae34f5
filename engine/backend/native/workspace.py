"""Workspace of a segment's forwards, which stays from one to the next, and its bytes for planning.

The library computes sizes from shapes, without weights. Where it was not built they are 0.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

import numpy as np

from engine.backend.ledger import Account, Reach
from engine.backend.native.library import (
    BlockStruct,
    DraftingStruct,
    FusionStruct,
    Rope,
    SamplingStruct,
    SegmentStruct,
    StepStruct,
    library,
    pointer,
)
from engine.backend.native.memory import reserve, reserve_rows
from engine.commands import KvType
from engine.errors import Absent
from engine.model.config import BlockConfig, ModelConfig, RopeConfig
from engine.model.rope import rotations
from engine.model.weights.readable import Floats

LANES, BLOCK = 16, 32
"""Numbers of a head are padded to the first; those of a block of keys have a scale."""
ROWS = 64
"""DT_MOST_ROWS, which a forward computes together, and rows whose logits there is room for."""
PREFILL_ROWS = 512
"""Rows of a forward that there is room for; longer ones get results of their own."""
PENDING = 64
"""Committed tokens for which a draft has room from the first."""
DEPTH, WIDTH = 10, 4
"""Depth and width of the tree for which a draft has room from the first."""

_PAGE = 4096
_FLOAT, _HALF = 4, 2


def segment_bytes(
    config: ModelConfig, blocks: Sequence[BlockConfig], *, head: bool, slots: int, taps: int = 0
) -> int:
    """Working memory of a segment whose longest sequence has so many slots.

    `taps`: blocks of it whose outputs are wanted.
    """
    results = rows_bytes(PREFILL_ROWS, config.hidden_size)
    results += rows_bytes(ROWS, config.head_rows) if head else 0
    results += rows_bytes(taps * PREFILL_ROWS, config.hidden_size) if taps else 0
    ropes = {block.rope for block in blocks if block.rope is not None}
    tables = sum(rows_bytes(2 * slots, rope.dim // 2) for rope in ropes)
    return _pages(scratch_bytes(config, blocks, ROWS)) + results + tables


def drafting_bytes(config: ModelConfig, depth: int, width: int) -> int:
    """Bytes that drafting trees takes beside `segment_bytes`."""
    if not _is_built():
        return 0
    drafting = DraftingStruct(pending=PENDING, depth=depth, width=width)
    shape = _segment_of(config, config.blocks)
    return _pages(library().dt_draft_bytes(c.byref(shape), c.byref(drafting)))


def drawing_bytes(vocab: int, *, filtered: bool = True, penalised: bool = False) -> int:
    """Bytes that the draws of one answer take."""
    if not _is_built():
        return 0
    sampling = SamplingStruct(
        temperature=1.0,
        top_p=0.9 if filtered else 1.0,
        repetition=1.1 if penalised else 1.0,
    )
    return _pages(library().dt_sampler_bytes(c.byref(sampling), vocab))


def scratch_bytes(config: ModelConfig, blocks: Sequence[BlockConfig], rows: int) -> int:
    """Bytes of scratch memory of a forward over so many rows."""
    if not _is_built():
        return 0
    return int(library().dt_scratch_bytes(c.byref(_segment_of(config, blocks)), rows))


def kv_token_bytes(heads: int, dim: int, kv: KvType) -> int:
    """Bytes of one token's keys and values in one block; engine/native/cache.c says how they lie.

    Args:
        heads: KV heads.
        dim: numbers of a head.
        kv: their type.
    """
    padded = dim + -dim % LANES
    if kv is KvType.F16:
        return heads * 2 * padded * _HALF
    key_scales = -(-padded // BLOCK)
    return heads * (2 * padded + (key_scales + 1) * _HALF)


def state_bytes(config: ModelConfig) -> tuple[int, ...]:
    """Bytes of one sequence's state, and of the rows kept behind it, of each block; 0: it attends.

    Empty where no block has a state.
    """
    if not config.recurrent or not _is_built():
        return ()
    each = {
        block: int(library().dt_cache_bytes(c.byref(_segment_of(config, [block])), 1))
        for block in set(config.blocks)
        if block.delta
    }
    return tuple(each.get(block, 0) for block in config.blocks)


def rows_bytes(rows: int, width: int) -> int:
    """An array of floats on pages of its own."""
    return _pages(rows * width * _FLOAT)


def _is_built() -> bool:
    try:
        library()
    except (Absent, OSError):
        return False
    return True


def _segment_of(config: ModelConfig, blocks: Sequence[BlockConfig]) -> SegmentStruct:
    """A segment's shape, as far as the library looks at it to say what it allocates."""
    # Of blocks that are alike, only states take memory for each: what a long chain leads them to.
    attending = {id(block): block for block in blocks if block.delta is None}  # often the same one
    alike = {block.sizes: block for block in attending.values()}
    kinds = [*(block for block in blocks if block.delta is not None), *alike.values()]
    structs = (BlockStruct * len(kinds))(*map(_shape_of, kinds))
    segment = SegmentStruct(blocks=len(kinds), hidden=config.hidden_size, block=structs)
    segment.head.rows = config.head_rows
    if config.fusion is not None:
        fusion = FusionStruct(width=config.fusion.width)
        fusion.feature.rows = config.hidden_size if config.fusion.steps.feature else 0
        segment.fusion = c.pointer(fusion)
    return segment


def _shape_of(block: BlockConfig) -> BlockStruct:
    struct, experts, delta = BlockStruct(), block.experts, block.delta
    if experts is None:
        struct.inner = block.inner
    else:
        struct.experts.count, struct.experts.used = experts.count, experts.used
        struct.experts.intermediate = experts.intermediate_size
        struct.experts.shared = experts.shared
    if delta is None:
        set_heads(struct, block, int(not block.stores_kv))
    else:
        struct.delta.key_heads, struct.delta.value_heads = delta.key_heads, delta.value_heads
        struct.delta.key_dim, struct.delta.value_dim = delta.key_dim, delta.value_dim
        struct.delta.width = delta.width
    return struct


def set_heads(struct: BlockStruct, block: BlockConfig, kv_from: int) -> None:
    """Tell the library of a block's heads, and how many blocks before it its keys lie."""
    struct.heads, struct.kv_heads, struct.head_dim = block.heads, block.kv_heads, block.head_dim
    struct.gated, struct.kv_from = block.gated, kv_from


def _pages(nbytes: int) -> int:
    """Round up to whole pages, at least one."""
    return max(nbytes + -nbytes % _PAGE, _PAGE)


class ForwardScratch:
    """Room for a segment's forwards, which never run at the same time; touched as it is used."""

    def __init__(self, segment: SegmentStruct, account: Account) -> None:
        self._reach = Reach(lambda rows: int(library().dt_scratch_bytes(segment, rows)))
        most = library().dt_scratch_bytes(segment, ROWS)
        self._memory = reserve(account, (most,), touched=self._reach)
        segment.scratch, segment.scratch_bytes = pointer(self._memory), most

    def use(self, rows: int) -> None:
        """Prepare for a forward over so many rows."""
        self._reach.extend(rows)


class TapRows:
    """Taps of one segment's forwards.

    Args:
        blocks: the segment's.
        width: hidden size.
        account: where the memory is entered, when taps are first wanted.
    """

    def __init__(self, blocks: range, width: int, account: Account) -> None:
        self._blocks, self._width, self._account = blocks, width, account
        self._wanted: tuple[int, ...] = ()
        self._here: list[int] = []
        self._memory: Floats | None = None

    def prepare(
        self, step: StepStruct, wanted: tuple[int, ...], rows: int, most: int
    ) -> dict[int, Floats]:
        """Ask a forward for the outputs of those of the blocks that are this segment's.

        Args:
            step: the forward's.
            wanted: block indices.
            rows: of the forward.
            most: rows that there is to be room for.

        Returns:
            block index -> fp32 [rows, width], filled by the forward, valid until the next.
        """
        if wanted != self._wanted:
            self._choose(wanted)
        step.tap_count = count = len(self._here)
        if not count:
            return {}
        memory = self._memory
        if memory is None or len(memory) < count * most:
            self._memory = None  # the old one goes first
            self._used, self._memory = reserve_rows(self._account, count * most, self._width)
            memory = self._memory
        self._used.extend(count * rows)
        step.taps, step.tap_out = pointer(self._local), pointer(memory)
        out = memory[: count * rows].reshape(count, rows, self._width)
        return dict(zip(self._here, out, strict=True))

    def _choose(self, wanted: tuple[int, ...]) -> None:
        self._wanted = wanted
        self._here = [tap for tap in wanted if tap in self._blocks]
        self._local = np.array([tap - self._blocks.start for tap in self._here], dtype=np.int32)


_PIECE = 4096
"""Positions computed at once: a whole table has as large intermediate results."""


class RopeTables:
    """One table for each way to rotate, at an address of its own that stays.

    Args:
        account: where they are entered.

    Attributes:
        struct: as the library sees them.
    """

    def __init__(self, ropes: Sequence[RopeConfig], account: Account) -> None:
        self._ropes, self._account = ropes, account
        self._positions = 0
        self._tables: list[Floats] = []
        self.struct = (Rope * len(ropes))(*(Rope(dim=rope.dim) for rope in ropes))

    def reach(self, positions: int) -> None:
        """Extend the tables to so many positions."""
        if positions <= self._positions:
            return
        tables = [self._table(rope, positions) for rope in self._ropes]
        for native, (cosine, sine) in zip(self.struct, tables, strict=True):
            native.cosine, native.sine = pointer(cosine), pointer(sine)
        self._tables, self._positions = tables, positions

    def _table(self, rope: RopeConfig, positions: int) -> Floats:
        table: Floats = reserve(self._account, (2, positions, rope.dim // 2), np.float32)
        for first in range(0, positions, _PIECE):
            last = min(first + _PIECE, positions)
            table[:, first:last] = rotations(rope, last, first)
        return table
