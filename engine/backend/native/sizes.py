"""Bytes that native segments, caches and calls take, by plain arithmetic: for planning.

The allocators ask the library itself; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Sequence

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

_PAGE, _BORDER = 4096, 64
_LANES, _BLOCK, _CHUNK, _TILE_ROWS = 16, 32, 64, 16
_FLOAT = 4
_QUANTISED, _SPREAD = 768, 2048
_MIXTURE, _VISIT, _PRODUCT = 136, 16, 72
_CANDIDATE, _RANKED = 32, 8
_SAMPLER, _GROUP, _BINS = 240, 256, 16 * 1024 * 8


def cache_bytes(config: ModelConfig, blocks: int, slots: int) -> int:
    """Keys and values of one sequence, fp16."""
    return blocks * config.num_kv_heads * _up(config.head_dim, _LANES) * _up(slots, _CHUNK) * 2 * 2


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
    """What the verification of trees takes beside that."""
    results = rows_bytes(rows, config.hidden_size) + rows_bytes(rows, config.vocab_size)
    return results + (rows_bytes(taps * rows, config.hidden_size) if taps else 0)


def drafting_bytes(config: ModelConfig, depth: int, width: int) -> int:
    """What drafting of trees takes beside that."""
    nodes = 1 + width + (depth - 1) * width * width
    rows = max(PENDING, width)
    return _pages(
        _laid(
            nodes * _CANDIDATE,
            nodes * 4,
            width * 4,
            width * width * _RANKED,
            rows * 4,
            width * 4,
            rows * config.hidden_size * _FLOAT,
            width * config.head_rows * _FLOAT,
            *([width * config.hidden_size * _FLOAT] if config.fusion else []),
        )
    )


def drawing_bytes(vocab: int, *, filtered: bool = True, penalised: bool = False) -> int:
    """What the draws of one answer take."""
    padded = _up(vocab, _GROUP)
    sizes = [_SAMPLER]
    if penalised:
        sizes += [padded * each for each in (4, 4, 12)]
    if filtered:
        sizes += [padded // _GROUP * 16 * 4, _BINS, *(padded * each for each in (4, 4, 4, 8, 8))]
    return _pages(_laid(*sizes))


def scratch_bytes(config: ModelConfig, blocks: Sequence[BlockConfig], rows: int) -> int:
    """What a forward over so many rows works in."""
    hidden, inner = _up(config.hidden_size, _BLOCK), _up(config.intermediate_size, _BLOCK)
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    mixed, padded = _up(queries, _BLOCK), config.num_heads * _up(config.head_dim, _LANES)
    fused = _fused_cols(config)
    cols = max(inner, hidden, mixed, *fused)
    floats = (hidden, hidden, queries + 2 * keys, padded, mixed, 2 * inner, inner, *fused)
    quantised = -(-rows // _TILE_ROWS) * (cols // _BLOCK) * _QUANTISED
    own = _laid(*(each * rows * _FLOAT for each in floats), _spread(cols), quantised)
    return own + _mixture_bytes(hidden, blocks, rows)


def _fused_cols(config: ModelConfig) -> tuple[int, ...]:
    """Of a feature head: its features, and what its fusion has side by side."""
    fusion = config.fusion
    if fusion is None:
        return ()
    beside = fusion.width if fusion.kind == "linear" else config.hidden_size
    return _up(fusion.width, _BLOCK), _up(config.hidden_size + beside, _BLOCK)


def rows_bytes(rows: int, width: int) -> int:
    """An array of floats on pages of its own."""
    return _pages(rows * width * _FLOAT)


def _mixture_bytes(hidden: int, blocks: Sequence[BlockConfig], rows: int) -> int:
    """Of the largest mixture of experts."""
    mixtures = [block.experts for block in blocks if block.experts is not None]
    if not mixtures:
        return 0
    inner = _up(max(each.intermediate_size for each in mixtures), _BLOCK)
    count = _up(max(each.count for each in mixtures), _LANES)
    places = rows * max(each.used for each in mixtures)
    cols, visited = max(inner, hidden), min(places, count)
    groups = places // _TILE_ROWS + visited
    return _laid(_MIXTURE) + _laid(
        *(each * 4 for each in (rows * count, places, places, places, places, count)),
        count * _VISIT,
        2 * count * _PRODUCT,
        *(places * each * _FLOAT for each in (hidden, 2 * inner, inner, hidden)),
        visited * _spread(cols),
        groups * (cols // _BLOCK) * _QUANTISED,
    )


def _laid(*sizes: int) -> int:
    """Arrays one behind the other, each with some bytes to read past its end."""
    return sum((size + 2 * _BORDER - 1) // _BORDER * _BORDER for size in sizes)


def _spread(cols: int) -> int:
    return -(-cols // 64) * _SPREAD


def _pages(nbytes: int) -> int:
    return max(_up(nbytes, _PAGE), _PAGE)


def _up(count: int, step: int) -> int:
    return count + -count % step
