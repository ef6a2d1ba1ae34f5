"""Bytes beside weights, keys and values: activations, logits, scratch, tables of rotations.

What the native backend takes, `engine.backend.native.sizes` knows. An accelerator on torch takes
what is written down here; tests hold that against its ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backend.native.sizes import (
    drafting_bytes,
    drawing_bytes,
    segment_bytes,
    verifying_bytes,
)
from engine.model.config import BlockConfig, ModelConfig
from engine.model.decoder import MAX_TREE

DEPTH, WIDTH = 10, 4
"""Of the largest tree that a draft grows."""

DEVICE_SCRATCH = 12 << 22
"""What an accelerator widens weights in, and multiplies them from: all models share it."""

_ROWS, _FEW_ROWS, _TILE_ROWS, _CHUNK = 256, 64, 16, 64
_FRAME_ROWS = 5 * 16 + 32 + 64 + 128 + 256
"""Rows of all frames: those of 1 to 16 rows have 16."""
_ATTENDING = 64 << 20
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """Working memory on an accelerator: `own`, and `shared`, of which models need the largest."""

    own: int
    shared: int


NO_ROOM = DeviceRoom(0, 0)


def native_room(config: ModelConfig, cut: int, slots: int, *, embeds: bool, heads: bool) -> int:
    """Of native segments with the blocks from `cut` on.

    Args:
        embeds: the embedding is here, in a segment of its own unless all else is as well.
        heads: the head is here.
    """
    rest, whole = config.blocks[cut:], cut == 0
    room = 0
    if heads or rest:
        room += segment_bytes(config, rest, head=heads, slots=slots)
    if embeds and not whole:
        room += segment_bytes(config, (), head=False, slots=slots)
    if heads:
        room += verifying_bytes(config)
    return room + (drawing_bytes(config.vocab_size) if embeds else 0)


def native_draft_room(config: ModelConfig, slots: int) -> int:
    """Of a draft wholly in one native segment."""
    return segment_bytes(config, config.blocks, head=True, slots=slots) + drafting_bytes(
        config, DEPTH, WIDTH
    )


def device_room(
    config: ModelConfig, blocks: Sequence[BlockConfig], context: int, *, heads: bool
) -> DeviceRoom:
    """Of a segment on torch."""
    slots = context + MAX_TREE
    ropes = {block.rope for block in blocks if block.rope is not None}
    turns = sum(slots * rope.dim * _FLOAT for rope in ropes)
    frames = _FRAME_ROWS * (config.hidden_size + 5) * _FLOAT
    chunks = -(-slots // _CHUNK)
    masks = len({block.window for block in blocks}) * _ROWS * chunks * _CHUNK * _FLOAT
    group = config.num_heads // config.num_kv_heads
    a_head = chunks * _TILE_ROWS * group * (6 * _CHUNK + 10 * config.head_dim)
    attending = max(min(_ATTENDING // a_head, config.num_kv_heads), 1) * a_head
    working = max(
        _activations(config, blocks), _FEW_ROWS * config.vocab_size * 2 * _FLOAT if heads else 0
    )
    return DeviceRoom(own=turns + frames, shared=working + masks + attending)


def _activations(config: ModelConfig, blocks: Sequence[BlockConfig]) -> int:
    """Of a forward over the most rows, between its products."""
    queries = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    mixtures = [each.experts.intermediate_size for each in blocks if each.experts is not None]
    inner = max([config.intermediate_size, *mixtures])
    return _ROWS * _FLOAT * (6 * config.hidden_size + 4 * queries + 6 * inner)
