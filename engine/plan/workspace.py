"""Bytes beside weights, keys and values: activations, logits, scratch, tables of rotations.

The backends say what they take, by plain arithmetic; here is which segments there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.accelerator import sizes as device_sizes
from engine.backend.native.sizes import (
    DEPTH,
    PREFILL_ROWS,
    VERIFIED_ROWS,
    WIDTH,
    drafting_bytes,
    drawing_bytes,
    rows_bytes,
    segment_bytes,
    verifying_bytes,
)
from engine.model.config import ModelConfig

HEAD_WIDTH = 10
"""Nodes of a level of a feature head's trees."""


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


def native_tap_room(config: ModelConfig, taps: int) -> int:
    """Of native segments besides, where the outputs of so many blocks are wanted."""
    if not taps:
        return 0
    hidden = config.hidden_size
    return rows_bytes(taps * PREFILL_ROWS, hidden) + rows_bytes(taps * VERIFIED_ROWS, hidden)


def native_draft_room(config: ModelConfig, slots: int) -> int:
    """Of a draft wholly in one native segment."""
    drafting = drafting_bytes(config, DEPTH, HEAD_WIDTH if config.fusion else WIDTH)
    return segment_bytes(config, config.blocks, head=True, slots=slots) + drafting


def device_draft_room(config: ModelConfig) -> int:
    """Of a draft wholly in one segment on torch, beside what any segment takes."""
    return device_sizes.drafting_bytes(config)


def device_room(config: ModelConfig, slots: int, *, heads: bool) -> DeviceRoom:
    """Of a segment on torch, with some or all blocks."""
    blocks = range(config.num_layers)
    working = device_sizes.working_bytes(config, blocks, slots, head=heads)
    recorded = device_sizes.recorded_bytes(config, blocks, slots, head=heads)
    return DeviceRoom(
        own=device_sizes.segment_bytes(config, blocks, slots), shared=working + recorded
    )
