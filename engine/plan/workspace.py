"""Bytes beside weights, keys and values: activations, logits, scratch, tables of rotations.

The backends say what they take, by plain arithmetic; here is which segments there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.accelerator import sizes as device_sizes
from engine.backend.native.sizes import (
    DEPTH,
    WIDTH,
    drafting_bytes,
    drawing_bytes,
    segment_bytes,
    verifying_bytes,
)
from engine.model.config import ModelConfig


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
    drafting = drafting_bytes(config, DEPTH, WIDTH)
    return segment_bytes(config, config.blocks, head=True, slots=slots) + drafting


def device_room(config: ModelConfig, slots: int, *, heads: bool) -> DeviceRoom:
    """Of a segment on torch, with some or all blocks."""
    blocks = range(config.num_layers)
    return DeviceRoom(
        own=device_sizes.segment_bytes(config, blocks, slots),
        shared=device_sizes.working_bytes(config, blocks, slots, head=heads),
    )
