"""Rows that an accelerator's segments compute at once, and their bytes: for planning too.

Plain arithmetic, without torch. Weights take what they take in their files.
"""

from __future__ import annotations

from functools import cache

from engine.backend.drafted_levels import DRAFT_LEVELS
from engine.backend.step import CHUNK
from engine.model.config import ModelConfig

TILE_ROWS = 16
"""Rows of every product of up to FEW_ROWS, so that what a row gives never hangs on its company."""
FEW_ROWS = 64
"""Most rows of a forward over a tree."""
RECORDED_ROWS = 32
"""Most rows of a forward that is recorded and replayed, where a device can do that."""
RECORDED_LAUNCHES = 8192
"""Most launches for experts in a recording: memory of the driver's for each, and time to record."""
_LAUNCHES_OF_EXPERT = 20
BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Rows of a forward. Up to 16 are computed alike, but for experts, which few rows choose few of.

Longer prompts go in passes of 256. Wider ones would take four times the workspace and save little:
a widened piece fits the second-level cache of a card, and multiplying 256 rows by it takes longer
than reading it.
"""
PIECE = 1 << 22
"""Most numbers that are widened at once."""
ALIGNED_ROWS = 128
"""Pieces of a matrix begin at multiples of so many rows, so that kernels may read words there."""
FEWEST_CHUNKS = 4
"""Rows look at so many chunks of keys, or at twice, four times, ... as many."""
TAIL = 2
"""Chunks of positions that trees of up to FEW_ROWS levels have paths of their own in."""
DRAFT_WIDTH = 10
"""Nodes across a drafted tree that are planned for; TILE_ROWS are possible."""
WORKING_BYTES = 64 << 20
"""Of scores and partial sums at a time: more is done by some heads after the other."""

_FLOAT = 4


def shared_bytes() -> int:
    """Bytes that all segments on a device widen weights in: codes, table places, numbers."""
    return PIECE * (1 + 1 + 4 + _FLOAT + 2)


def cache_bytes(config: ModelConfig, blocks: range, slots: int) -> int:
    """Keys and values of one sequence, fp16, with a chunk for rows that are none."""
    chunks, own = -(-slots // CHUNK) + 1, config.blocks[0]  # they are alike, see that_serves
    return len(blocks) * own.kv_heads * own.head_dim * chunks * CHUNK * 2 * 2


def segment_bytes(config: ModelConfig, blocks: range, slots: int) -> int:
    """Bytes that a segment keeps beside its weights: rotation tables and input buffers."""
    own = [config.blocks[index].rope for index in blocks]
    tables = sum(slots * rope.dim * _FLOAT for rope in set(own) if rope is not None)
    return tables + _frames_bytes(given_width(config))


@cache  # a plan asks for every context and cut
def _frames_bytes(width: int) -> int:
    """Bytes of all input buffers of a segment whose rows begin with so many numbers."""
    frames = [frame_bytes(bucket, 0, width) for bucket in BUCKETS]
    return sum(frames) + sum(frame_bytes(n, TAIL, width) for n in BUCKETS if n <= FEW_ROWS)


def given_width(config: ModelConfig) -> int:
    """Numbers that a row begins with: of a hidden state, or of a head's features."""
    return config.hidden_size if config.fusion is None else config.fusion.width


def frame_bytes(bucket: int, tail: int, width: int) -> int:
    """Integers and hidden states that a forward reads; see `InputBuffers`."""
    return _FLOAT * sum(frame_sizes(bucket, tail)) + computed(bucket) * width * _FLOAT


def frame_sizes(bucket: int, tail: int) -> list[int]:
    """Numbers of tokens, positions, slots, wanted rows, the base, slots of paths."""
    rows = computed(bucket)
    return [rows, rows, rows, rows + FEW_ROWS, 1, rows * tail * CHUNK]


def computed(bucket: int) -> int:
    """Rows that are computed for so many, a multiple of 16."""
    return max(bucket, TILE_ROWS)


def is_recorded(config: ModelConfig, blocks: range, rows: int) -> bool:
    """Tell whether forwards of so many rows are recorded: experts take many launches."""
    experts = [found for index in blocks if (found := config.blocks[index].experts) is not None]
    run = sum(min(rows * each.used, each.count) for each in experts)
    return rows <= RECORDED_ROWS and run * _LAUNCHES_OF_EXPERT <= RECORDED_LAUNCHES


def recorded_bytes(config: ModelConfig, blocks: range, slots: int, *, head: bool) -> int:
    """Bytes that recorded forwards keep in addition, shared by all segments on a device."""
    return working_bytes(config, blocks, slots, head=head, rows=RECORDED_ROWS)


def working_bytes(
    config: ModelConfig, blocks: range, slots: int, *, head: bool, rows: int = BUCKETS[-1]
) -> int:
    """Most bytes that a forward of so many rows holds at once, shared by a device's segments.

    With its logits there is room for what a draft does with them: their ranking, or noise.
    """
    hidden = config.hidden_size
    logits = (FEW_ROWS + TILE_ROWS) * config.head_rows * _FLOAT if head else 0
    if not blocks:
        return 3 * rows * hidden * _FLOAT + logits
    own = [config.blocks[index] for index in blocks]
    inner = max(
        block.inner if block.experts is None else block.experts.intermediate_size for block in own
    )
    kv_heads, dim = own[0].kv_heads, own[0].head_dim  # they are alike, see that_serves
    queries = (own[0].heads + 2 * kv_heads) * dim
    chunks = -(-slots // CHUNK)
    masks = len({block.window for block in own}) * rows * chunks * CHUNK * _FLOAT
    group = own[0].heads // kv_heads
    heads = heads_at_once(chunks, kv_heads, group, dim)
    parts = stretches(chunks) + TAIL
    tiles = min(tiles_at_once(parts, own[0].heads, dim), rows // TILE_ROWS)
    scores = max(
        heads * head_bytes(chunks, group, dim),
        tiles * part_bytes(parts, group * kv_heads, dim),
    )
    attention = rows * 4 * queries * _FLOAT + scores
    feed_forward = rows * inner * 18
    fusion = 0
    if config.fusion is not None:  # features scaled, both paths, their gate, side by side
        fusion = rows * (2 * config.fusion.width + 8 * hidden) * _FLOAT
    return masks + 3 * rows * hidden * _FLOAT + max(attention, feed_forward, logits, fusion)


def drafting_bytes(config: ModelConfig, width: int = DRAFT_WIDTH) -> int:
    """Bytes a model keeps to draft trees so wide: the tree, and noise for all its levels."""
    nodes = DRAFT_LEVELS * width * width
    tree = 2 * nodes + DRAFT_LEVELS * width + (2 * DRAFT_LEVELS + 8) * TILE_ROWS
    given = TILE_ROWS * config.hidden_size
    return (tree + given + DRAFT_LEVELS * config.head_rows) * _FLOAT


STRETCH = 4
"""Chunks of keys that a kernel's program sums up by itself."""


def stretches(chunks: int) -> int:
    """Return the number of stretches of so many chunks."""
    return -(-chunks // STRETCH)


def tiles_at_once(parts: int, heads: int, head_dim: int) -> int:
    """16 rows each, whose attention in so many parts kernels compute together."""
    return max(WORKING_BYTES // part_bytes(parts, heads, head_dim), 1)


def part_bytes(parts: int, heads: int, head_dim: int) -> int:
    """Bytes of 16 rows' sums, peaks and totals, one for every stretch and tail chunk."""
    return parts * TILE_ROWS * heads * (head_dim + 2) * _FLOAT


def heads_at_once(chunks: int, kv_heads: int, group: int, head_dim: int) -> int:
    """Key-value heads whose attention over so many chunks is computed together."""
    return max(min(WORKING_BYTES // head_bytes(chunks, group, head_dim), kv_heads), 1)


def head_bytes(chunks: int, group: int, head_dim: int) -> int:
    """Bytes that the attention of 16 rows takes for one key-value head.

    For every chunk, of the cache and of the rows' own paths: scores, once more as products take
    them, queries, partial sums and their running sums.
    """
    return (chunks + TILE_ROWS * TAIL) * TILE_ROWS * group * (6 * CHUNK + 10 * head_dim)
