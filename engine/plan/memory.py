"""Memory of plans: what devices have to give, for how long a context, and what every cut takes.

The context depends on the model, on memory and on the accelerator's size, never on the ceiling of
VRAM: moving the slider does not change what a conversation may hold, and what is on the accelerator
only grows with it. How much a segment, a cache or a call takes, the backends say by plain
arithmetic; here is which of them there are.
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
    WIDTH,
    drafting_bytes,
    drawing_bytes,
    rows_bytes,
    segment_bytes,
)
from engine.backend.webgpu import sizes as webgpu_sizes
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.language import tr
from engine.machine.facts import Accelerator, Vendor
from engine.machine.memory import device_reserve
from engine.model.config import ModelConfig
from engine.plan.facts import HEAD_WIDTH, DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Footprint, bytes_upto

Bytes = NDArray[np.int64]
Taps = tuple[Bytes, Bytes]

KV_SHARE = 0.25
"""Share of the free memory that the KV caches of all conversations may take together."""

DEVICE_KV_SHARE = 0.125
"""Share of an accelerator's memory that the KV cache of one conversation may need."""

SMALLEST_CONTEXT = 256
COMFORTABLE_CONTEXT = 4096
"""An accelerator's size does not cut the context below this."""

MIB = 2**20

TORCH_BYTES = 500 * MIB
"""Bytes of the host that torch takes where it drives an accelerator."""
_RUNTIMES = {Vendor.NVIDIA: 500 * MIB, Vendor.AMD: 500 * MIB, Vendor.INTEL: 300 * MIB}
_MOST_RUNTIME = 4096 * MIB
"""More was never the device's own software."""
_SLACK = 64
_USUALLY_FREE = 15 / 16
"""Share of an accelerator's memory to count on for a context that stays the same."""
_CHUNKS = 192
"""Tokens by which caches are rounded up, at most."""

_KEPT = 64
"""Results that are remembered: a slider asks for the same models again and again."""


# ---- what devices have to give -----------------------------------------------------------------


def device_limit(found: Accelerator) -> int:
    """The most that our process may hold on an accelerator."""
    free = found.memory_total if found.memory_free is None else found.memory_free
    return max((free or 0) - device_reserve(found), 0)


def runtime_bytes(found: Accelerator) -> int:
    """Return the bytes of a device's software and fixed memory: measured, or else the usual."""
    if found.declared_software is not None:
        return found.declared_software
    if found.webgpu:
        return webgpu_sizes.RUNTIME
    if found.software is not None:
        return min(max(found.software, device_sizes.shared_bytes()), _MOST_RUNTIME)
    return device_sizes.shared_bytes() + _RUNTIMES.get(found.vendor, 0)


def with_slack(found: Accelerator, nbytes: Bytes) -> Bytes:
    """Add what torch's allocator loses by rounding to numbers of bytes."""
    return nbytes if found.takes_core or found.webgpu else nbytes + nbytes // _SLACK


# ---- how long the context is -------------------------------------------------------------------


def context_for(
    host_budget: int,
    accelerator: Accelerator | None,
    target: ModelFacts,
    drafts: Sequence[DraftFacts],
    wish: Wish,
    *,
    cut: bool = True,
) -> int:
    """Return the planned context in tokens.

    Args:
        host_budget: bytes of the PC's memory that may be used.
        accelerator: the one that is planned with.
        target: the model.
        drafts: what could draft for it; the first one's KV cache takes room too.
        wish: with the context, where one was asked for.
        cut: leave room on the accelerator for the weights.

    Raises:
        NotPossible: more were asked for than the model handles.
    """
    if wish.context is not None:
        if not 1 <= wish.context <= target.max_positions:
            raise NotPossible(
                tr(
                    "A context of {context} tokens is not possible: {model} handles up to {most}."
                ).format(context=wish.context, model=target.name, most=target.max_positions),
                tr("Choose between 1 and {most}.").format(most=target.max_positions),
            )
        return wish.context
    held = [target.footprint, *(draft.model.footprint for draft in drafts[:1])]
    weights = sum(each.weight_bytes + each.state_bytes for each in held)
    per_token = sum(each.kv_bytes_per_token for each in held)
    features = sum(each.feature_bytes_per_token for each in held)
    tokens = _tokens((host_budget - weights) * KV_SHARE, per_token + features)
    if accelerator is not None:
        size = accelerator.memory_total or 0
        if tokens < COMFORTABLE_CONTEXT and not accelerator.shares_host_memory:
            tokens = _tokens((host_budget + size - weights) * KV_SHARE, per_token)
        if not cut:
            return min(target.max_positions, max(tokens, SMALLEST_CONTEXT))
        tokens = min(tokens, max(_tokens(size * DEVICE_KV_SHARE, per_token), COMFORTABLE_CONTEXT))
        tokens = min(tokens, target.max_positions)
        whole = _that_leave_room(accelerator, held, tokens)
        if COMFORTABLE_CONTEXT <= whole < tokens:
            tokens = whole
    return min(target.max_positions, max(tokens, SMALLEST_CONTEXT))


def _that_leave_room(found: Accelerator, models: Sequence[Footprint], tokens: int) -> int:
    """Return how many tokens let all models just fit on an accelerator; at most `tokens`."""
    usable = int((found.memory_total or 0) * _USUALLY_FREE) - device_reserve(found)
    rooms = [_device_room(held, tokens, found, heads=True) for held in models]
    usable -= sum(room.own for room in rooms) + max((room.shared for room in rooms), default=0)
    usable -= usable // _SLACK + runtime_bytes(found)
    usable -= sum(held.weight_bytes for held in models)
    usable -= sum(_kv_bytes(held, 0, len(held.blocks), found) for held in models if held.states)
    per_token = sum(held.kv_bytes_per_token for held in models)
    return min(_tokens(usable, per_token) - MAX_TREE - _CHUNKS, tokens)


def _tokens(nbytes: float, per_token: int) -> int:
    return int(max(nbytes, 0)) // max(per_token, 1)


# ---- what every cut takes ----------------------------------------------------------------------


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
    blocks, count = bytes_upto(held), len(held.blocks)
    embedding = held.embedding.nbytes
    rest = blocks[-1] - blocks + held.head.nbytes + (0 if held.tied else embedding)
    kv = [held.kv_bytes(context, range(cut, count)) for cut in range(count + 1)]
    work = [_native_room(held, 0, context, heads=True)]
    if alone:
        return PlannedMemory.of(rest[:1], kv[:1], work)
    outside = 0 if held.tied else _native_room(held, count, context, heads=False)
    if held.states:  # every state has memory of its own there
        work += [_native_room(held, cut, context, heads=True) for cut in range(1, count + 1)]
    else:
        some, none = (_native_room(held, cut, context, heads=True) for cut in (1, count))
        work += [some] * (count - 1) + [none]
    work.append(outside)
    return PlannedMemory.of(np.append(rest, 0 if held.tied else embedding), [*kv, 0], work)


@lru_cache(maxsize=_KEPT)
def on_accelerator(held: Footprint, context: int, found: Accelerator) -> PlannedMemory:
    """Return the memory of a target on an accelerator."""
    blocks, count = bytes_upto(held), len(held.blocks)
    kv = [_kv_bytes(held, context, cut, found) if cut else 0 for cut in range(count + 1)]
    some, whole = (_room(held, context, found, heads=heads) for heads in (False, True))
    rooms = [_NO_ROOM, *[some] * count, whole]
    return PlannedMemory.of(
        np.append(blocks, blocks[-1] + held.head.nbytes),
        [*kv, kv[-1]],
        [room.own for room in rooms],
        [room.shared for room in rooms],
    )


@lru_cache(maxsize=_KEPT)
def draft_on_cpu(held: Footprint, context: int) -> PlannedMemory:
    """Return the memory of a draft on the CPU."""
    room = _native_draft_room(held.config, context) if held.config else 0
    weights = np.array([held.weight_bytes], dtype=np.int64)
    return PlannedMemory.of(weights, [held.kv_bytes(context, range(len(held.blocks)))], [room])


@lru_cache(maxsize=_KEPT)
def draft_on_accelerator(held: Footprint, context: int, found: Accelerator) -> PlannedMemory:
    """Return the memory of a draft on an accelerator, with its embedding: it drafts trees there."""
    whole = on_accelerator(held, context, found).at(-1)
    weights = np.array([held.weight_bytes], dtype=np.int64)
    if held.config is None or found.webgpu:
        return replace(whole, weights=weights)
    if not found.takes_core:
        work = whole.workspace + device_sizes.drafting_bytes(held.config)
        return replace(whole, weights=weights, workspace=work)
    room = _native_draft_room(held.config, context)
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
    shortlisted = head.config is not None and head.config.rows is not None  # rows of its own
    none = fusion.own_head or head.tied or shortlisted
    output = 0 if none else max(count for _, count in head.head.dense)
    elsewhere = len(target.blocks) + 1
    with_head = (np.arange(cuts) == elsewhere) ^ on_host
    with_embedding = with_head if target.tied else np.full(cuts, on_host)
    saved += embedding * with_embedding + output * with_head
    return saved


def tap_rooms(target: Footprint, head: Footprint, cuts: int, found: Accelerator | None) -> Taps:
    """Return the workspace for the target's outputs that a head takes, on host and accelerator.

    On a real accelerator these outputs go through memory that all outputs share.
    """
    if target.config is None or head.fusion is None:
        return NOTHING.own, NOTHING.own
    there = np.searchsorted(np.sort(head.fusion.taps), np.arange(cuts))
    rooms = [_native_tap_room(target.config, taps) for taps in range(len(head.fusion.taps) + 1)]
    room_of = np.array(rooms, dtype=np.int64)
    shared = found is None or not found.takes_core
    return room_of[len(rooms) - 1 - there], room_of[0 * there if shared else there]


# ---- working memory ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Room:
    """Workspace on an accelerator: `own`, and `shared`, of which models need only the largest."""

    own: int
    shared: int


_NO_ROOM = _Room(0, 0)


def _room(held: Footprint, context: int, found: Accelerator, *, heads: bool) -> _Room:
    if found.takes_core:
        return _Room(_native_room(held, 0, context, embeds=False, heads=heads), 0)
    return _device_room(held, context, found, heads=heads)


def _kv_bytes(held: Footprint, context: int, blocks: int, found: Accelerator) -> int:
    """Return the bytes of one sequence's cache in the first so many blocks."""
    if found.webgpu and held.config is not None:
        return webgpu_sizes.cache_bytes(held.config, range(blocks), context + MAX_TREE)
    if found.takes_core:
        return held.kv_bytes(context, range(blocks))
    return held.device_kv_bytes(context, range(blocks))


def _device_room(held: Footprint, context: int, found: Accelerator, *, heads: bool) -> _Room:
    """Return the workspace of a segment on a real device with all blocks of a model."""
    config, slots = held.config, context + MAX_TREE
    if config is None:
        return _NO_ROOM
    blocks = range(config.num_layers)
    if found.webgpu:
        return _Room(webgpu_sizes.segment_bytes(config, blocks, slots, head=heads), shared=0)
    working = device_sizes.working_bytes(config, blocks, slots, head=heads)
    recorded = device_sizes.recorded_bytes(config, blocks, slots, head=heads)
    return _Room(device_sizes.segment_bytes(config, blocks, slots), shared=working + recorded)


def _native_room(
    held: Footprint, cut: int, context: int, *, embeds: bool = True, heads: bool
) -> int:
    """Return the workspace bytes of native segments with the blocks from `cut` on.

    Args:
        embeds: the embedding is here, in a segment of its own unless all else is as well.
        heads: the head is here.
    """
    config, slots = held.config, context + MAX_TREE
    if config is None:
        return 0
    rest, whole = config.blocks[cut:], cut == 0
    room = 0
    if heads or rest:
        room += segment_bytes(config, rest, head=heads, slots=slots)
    if embeds and not whole:
        room += segment_bytes(config, (), head=False, slots=slots)
    return room + (drawing_bytes(config.vocab_size) if embeds else 0)


def _native_tap_room(config: ModelConfig, taps: int) -> int:
    """Return the extra workspace of native segments that output so many blocks' hidden states."""
    return rows_bytes(taps * PREFILL_ROWS, config.hidden_size) if taps else 0


def _native_draft_room(config: ModelConfig, context: int) -> int:
    """Return the workspace bytes of a draft wholly in one native segment."""
    drafting = drafting_bytes(config, DEPTH, HEAD_WIDTH if config.fusion else WIDTH)
    slots = context + MAX_TREE
    return segment_bytes(config, config.blocks, head=True, slots=slots) + drafting
