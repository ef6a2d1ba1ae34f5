"""Bytes that every cut of a target takes on the CPU and on an accelerator, and a draft on either.

How much a segment, a cache or a call takes, the backends say by plain arithmetic; here is which of
them there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.backend.accelerator import sizes as device_sizes
from engine.backend.decoder import MAX_TREE
from engine.backend.native.workspace import (
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
from engine.commands import WeightFormat
from engine.machine.facts import Accelerator
from engine.model.config import ModelConfig
from engine.plan.facts import HEAD_WIDTH
from engine.plan.footprint import Footprint

Bytes = NDArray[np.int64]
Taps = tuple[Bytes, Bytes]

_KEPT = 64
"""Results that are remembered: a slider asks for the same models again and again."""


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """Bytes on one device for every cut (see `engine.plan.cost`), or the same for all.

    Attributes:
        shared: working memory of which all models on a device need only the largest.
    """

    weights: Bytes
    kv: Bytes
    workspace: Bytes
    shared: Bytes

    @classmethod
    def of(
        cls, weights: Bytes, kv: Sequence[int], work: Sequence[int], shared: Sequence[int] = ()
    ) -> PlannedMemory:
        """Return the memory from what is known of each cut."""
        none = np.zeros(len(weights), dtype=np.int64)
        kept = np.array(shared, dtype=np.int64) if shared else none
        return cls(weights, np.array(kv, dtype=np.int64), np.array(work, dtype=np.int64), kept)

    @property
    def own(self) -> Bytes:
        """Bytes that are not shared."""
        return self.weights + self.kv + self.workspace

    def at(self, cut: int) -> PlannedMemory:
        """Return the memory for one cut alone."""
        every = self.weights, self.kv, self.workspace, self.shared
        return PlannedMemory(*(each[[cut if len(each) > 1 else 0]] for each in every))


NOTHING = PlannedMemory.of(np.zeros(1, dtype=np.int64), [0], [0])


def together(first: PlannedMemory, second: PlannedMemory | None) -> Bytes:
    """Return the bytes of two models on one device."""
    if second is None:
        return first.own + first.shared
    return first.own + second.own + np.maximum(first.shared, second.shared)


@lru_cache(maxsize=_KEPT)
def on_cpu(held: Footprint, context: int, *, alone: bool) -> PlannedMemory:
    """Return the memory of a target on the CPU; `alone`: no accelerator, so only cut 0."""
    blocks, count = _cumulated(held), len(held.blocks)
    embedding = held.embedding.nbytes
    rest = blocks[-1] - blocks + held.head.nbytes + (0 if held.tied else embedding)
    kv = [held.kv_bytes(context, count - cut) for cut in range(count + 1)]
    work = [_native_room(held, 0, context, heads=True)]
    if alone:
        return PlannedMemory.of(rest[:1], kv[:1], work)
    some, none = (_native_room(held, cut, context, heads=True) for cut in (1, count))
    outside = 0 if held.tied else _native_room(held, count, context, heads=False)
    work += [some] * (count - 1) + [none, outside]
    return PlannedMemory.of(np.append(rest, 0 if held.tied else embedding), [*kv, 0], work)


@lru_cache(maxsize=_KEPT)
def on_accelerator(held: Footprint, context: int, found: Accelerator) -> PlannedMemory:
    """Return the memory of a target on an accelerator."""
    blocks, count = _cumulated(held), len(held.blocks)
    kv_bytes = held.kv_bytes if found.takes_core else held.device_kv_bytes
    kv = [kv_bytes(context, cut) if cut else 0 for cut in range(count + 1)]
    some, whole = (_room(held, context, found, heads=heads) for heads in (False, True))
    rooms = [NO_ROOM, *[some] * count, whole]
    return PlannedMemory.of(
        np.append(blocks, blocks[-1] + held.head.nbytes),
        [*kv, kv[-1]],
        [room.own for room in rooms],
        [room.shared for room in rooms],
    )


@lru_cache(maxsize=_KEPT)
def draft_on_cpu(held: Footprint, context: int) -> PlannedMemory:
    """Return the memory of a draft on the CPU."""
    room = native_draft_room(held.config, context + MAX_TREE) if held.config else 0
    weights = np.array([held.weight_bytes], dtype=np.int64)
    return PlannedMemory.of(weights, [held.kv_bytes(context, len(held.blocks))], [room])


@lru_cache(maxsize=_KEPT)
def draft_on_accelerator(held: Footprint, context: int, found: Accelerator) -> PlannedMemory:
    """Return the memory of a draft on an accelerator, with its embedding: it drafts trees there."""
    whole = on_accelerator(held, context, found).at(-1)
    weights = np.array([held.weight_bytes], dtype=np.int64)
    if held.config is None:
        return replace(whole, weights=weights)
    if not found.takes_core:
        work = whole.workspace + device_draft_room(held.config)
        return replace(whole, weights=weights, workspace=work)
    room = native_draft_room(held.config, context + MAX_TREE)
    return PlannedMemory.of(weights, [int(whole.kv[0])], [room])


def lent_to_head(target: Footprint, head: Footprint, cuts: int, *, on_host: bool) -> Bytes:
    """Return [cuts]: bytes of a head's weights that its target already holds on the head's device.

    The host always holds the target's embedding, unless it is tied and everything is on the
    accelerator; the accelerator holds the output matrix at the last cut only.
    """
    fusion = head.fusion
    saved = np.zeros(cuts, dtype=np.int64)
    if fusion is None or target.format is WeightFormat.F32:  # a path of its own, without loans
        return saved
    embedding = 0 if fusion.own_embedding else head.embedding.nbytes
    output = 0 if fusion.own_head or head.tied else max(count for _, count in head.head.dense)
    elsewhere = len(target.blocks) + 1
    with_head = (np.arange(cuts) == elsewhere) ^ on_host
    with_embedding = with_head if target.tied else np.full(cuts, on_host)
    saved += embedding * with_embedding + output * with_head
    return saved


def tap_rooms(target: Footprint, head: Footprint, cuts: int, found: Accelerator | None) -> Taps:
    """Return the workspace for the target's outputs that a head takes, on host and accelerator.

    On a real accelerator these outputs go through memory that all outputs share.
    """
    taps = np.array(head.fusion.taps if head.fusion else (), dtype=np.int64)
    there = [int((taps < cut).sum()) for cut in range(cuts)]
    here = [len(taps) - count for count in there]
    if target.config is None or found is None or not found.takes_core:
        there = [0] * cuts
    if target.config is None:
        return NOTHING.own, NOTHING.own
    on_host, on_device = (
        [native_tap_room(target.config, count) for count in counts] for counts in (here, there)
    )
    return np.array(on_host, dtype=np.int64), np.array(on_device, dtype=np.int64)


def _cumulated(held: Footprint) -> Bytes:
    """[blocks + 1]: bytes of the first 0, 1, ... blocks."""
    return np.cumsum([0, *(part.nbytes for part in held.blocks)], dtype=np.int64)


def _native_room(held: Footprint, cut: int, context: int, *, heads: bool) -> int:
    """Return the CPU's native workspace; the embedding may have a segment of its own."""
    if held.config is None:
        return 0
    return native_room(held.config, cut, context + MAX_TREE, embeds=True, heads=heads)


def _room(held: Footprint, context: int, found: Accelerator, *, heads: bool) -> DeviceRoom:
    config = held.config
    if config is None:
        return NO_ROOM
    slots = context + MAX_TREE
    if found.takes_core:
        return DeviceRoom(native_room(config, 0, slots, embeds=False, heads=heads), 0)
    return device_room(config, slots, heads=heads)


# ---- working memory ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """Workspace on an accelerator: `own`, and `shared`, of which models need only the largest."""

    own: int
    shared: int


NO_ROOM = DeviceRoom(0, 0)


def native_room(config: ModelConfig, cut: int, slots: int, *, embeds: bool, heads: bool) -> int:
    """Return the workspace bytes of native segments with the blocks from `cut` on.

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
    """Return the extra workspace of native segments that output so many blocks' hidden states."""
    if not taps:
        return 0
    hidden = config.hidden_size
    return rows_bytes(taps * PREFILL_ROWS, hidden) + rows_bytes(taps * VERIFIED_ROWS, hidden)


def native_draft_room(config: ModelConfig, slots: int) -> int:
    """Return the workspace bytes of a draft wholly in one native segment."""
    drafting = drafting_bytes(config, DEPTH, HEAD_WIDTH if config.fusion else WIDTH)
    return segment_bytes(config, config.blocks, head=True, slots=slots) + drafting


def device_draft_room(config: ModelConfig) -> int:
    """Return the workspace bytes that drafting adds to a torch segment with a whole draft."""
    return device_sizes.drafting_bytes(config)


def device_room(config: ModelConfig, slots: int, *, heads: bool) -> DeviceRoom:
    """Return the workspace of a torch segment with all blocks of a model."""
    blocks = range(config.num_layers)
    working = device_sizes.working_bytes(config, blocks, slots, head=heads)
    recorded = device_sizes.recorded_bytes(config, blocks, slots, head=heads)
    return DeviceRoom(
        own=device_sizes.segment_bytes(config, blocks, slots), shared=working + recorded
    )
