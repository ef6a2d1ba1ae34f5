"""Bytes that native segments and calls take, for planning, as the library allocates them.

The library computes them from shapes, without weights. Where it was not built they are 0.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

from engine.backend.native.library import (
    BlockStruct,
    DraftingStruct,
    FusionKind,
    FusionStruct,
    SamplingStruct,
    SegmentStruct,
    library,
)
from engine.errors import Absent
from engine.model.config import BlockConfig, ModelConfig

ROWS = 64
"""DT_MOST_ROWS, which a forward computes together, and rows whose logits there is room for."""
PREFILL_ROWS = 512
"""Rows of a forward that there is room for; longer ones get results of their own."""
VERIFIED_ROWS = 32
"""Nodes of a tree for whose verification there is room from the first."""
PENDING = 64
"""Committed tokens for which a draft has room from the first."""
DEPTH, WIDTH = 10, 4
"""Of the tree for which a draft has room from the first."""

_PAGE = 4096
_FLOAT = 4


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


def verifying_bytes(config: ModelConfig, rows: int = VERIFIED_ROWS, taps: int = 0) -> int:
    """Bytes that verifying trees takes beside `segment_bytes`."""
    results = rows_bytes(rows, config.hidden_size) + rows_bytes(rows, config.vocab_size)
    return results + (rows_bytes(taps * rows, config.hidden_size) if taps else 0)


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
    mixtures = list({block.experts for block in blocks if block.experts is not None})
    structs = (BlockStruct * len(mixtures))()  # blocks without experts take nothing of their own
    for struct, experts in zip(structs, mixtures, strict=True):
        struct.experts.count, struct.experts.used = experts.count, experts.used
        struct.experts.intermediate = experts.intermediate_size
    segment = SegmentStruct(
        blocks=len(mixtures),
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        block=structs,
    )
    segment.head.rows = config.head_rows
    if config.fusion is not None:
        kind = FusionKind[config.fusion.kind.upper()]
        segment.fusion = c.pointer(FusionStruct(kind=kind, width=config.fusion.width))
    return segment


def _pages(nbytes: int) -> int:
    """Round up to whole pages, at least one."""
    return max(nbytes + -nbytes % _PAGE, _PAGE)
