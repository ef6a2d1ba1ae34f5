"""What every cut of a target holds on the CPU and on an accelerator, and a draft on either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.model.decoder import MAX_TREE
from engine.plan.footprint import Footprint
from engine.plan.machine import Accelerator
from engine.plan.workspace import (
    NO_ROOM,
    DeviceRoom,
    device_room,
    native_draft_room,
    native_room,
)

Bytes = NDArray[np.int64]

_KEPT = 64
"""Answers that are remembered: a slider asks for the same models again and again."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes on one device for every cut (see `engine.plan.cost`).

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
    ) -> Holding:
        """From what is known of each cut."""
        none = np.zeros(len(weights), dtype=np.int64)
        kept = np.array(shared, dtype=np.int64) if shared else none
        return cls(weights, np.array(kv, dtype=np.int64), np.array(work, dtype=np.int64), kept)

    @property
    def own(self) -> Bytes:
        """All of it but what is shared."""
        return self.weights + self.kv + self.workspace

    def at(self, cut: int) -> Holding:
        """The same for one cut alone."""
        every = self.weights, self.kv, self.workspace, self.shared
        return Holding(*(each[[cut]] for each in every))


NOTHING = Holding.of(np.zeros(1, dtype=np.int64), [0], [0])


def together(first: Holding, second: Holding | None) -> Bytes:
    """Bytes of two models on one device."""
    if second is None:
        return first.own + first.shared
    return first.own + second.own + np.maximum(first.shared, second.shared)


@lru_cache(maxsize=_KEPT)
def on_cpu(held: Footprint, context: int, *, alone: bool) -> Holding:
    """What of a target stays on the CPU; `alone`: there is nothing else, and so a single cut."""
    blocks, count = _cumulated(held), len(held.blocks)
    embedding = held.embedding.nbytes
    rest = blocks[-1] - blocks + held.head.nbytes + (0 if held.tied else embedding)
    kv = [held.kv_bytes(context, count - cut) for cut in range(count + 1)]
    work = [_native_room(held, 0, context, heads=True)]
    if alone:
        return Holding.of(rest[:1], kv[:1], work)
    some, none = (_native_room(held, cut, context, heads=True) for cut in (1, count))
    outside = 0 if held.tied else _native_room(held, count, context, heads=False)
    work += [some] * (count - 1) + [none, outside]
    return Holding.of(np.append(rest, 0 if held.tied else embedding), [*kv, 0], work)


@lru_cache(maxsize=_KEPT)
def on_accelerator(held: Footprint, context: int, found: Accelerator) -> Holding:
    """What of a target an accelerator holds."""
    blocks, count = _cumulated(held), len(held.blocks)
    kv_bytes = held.kv_bytes if found.simulated else held.device_kv_bytes
    kv = [kv_bytes(context, cut) if cut else 0 for cut in range(count + 1)]
    some, whole = (_room(held, context, found, heads=heads) for heads in (False, True))
    rooms = [NO_ROOM, *[some] * count, whole]
    return Holding.of(
        np.append(blocks, blocks[-1] + held.head.nbytes),
        [*kv, kv[-1]],
        [room.own for room in rooms],
        [room.shared for room in rooms],
    )


@lru_cache(maxsize=_KEPT)
def draft_on_cpu(held: Footprint, context: int) -> Holding:
    """What a draft holds on the CPU."""
    room = native_draft_room(held.config, context + MAX_TREE) if held.config else 0
    weights = np.array([held.weight_bytes], dtype=np.int64)
    return Holding.of(weights, [held.kv_bytes(context, len(held.blocks))], [room])


@lru_cache(maxsize=_KEPT)
def draft_on_accelerator(held: Footprint, context: int, found: Accelerator) -> Holding:
    """What a draft holds on an accelerator; its embedding stays on the CPU where it is not tied."""
    whole = on_accelerator(held, context, found).at(-1)
    if not found.simulated or held.config is None:
        return whole
    room = native_draft_room(held.config, context + MAX_TREE)
    return Holding.of(whole.weights, [int(whole.kv[0])], [room])


def _cumulated(held: Footprint) -> Bytes:
    """[blocks + 1]: bytes of the first 0, 1, ... blocks."""
    return np.cumsum([0, *(part.nbytes for part in held.blocks)], dtype=np.int64)


def _native_room(held: Footprint, cut: int, context: int, *, heads: bool) -> int:
    """Beside an accelerator the CPU has an embedding alone, unless it has everything."""
    if held.config is None:
        return 0
    return native_room(held.config, cut, context + MAX_TREE, embeds=True, heads=heads)


def _room(held: Footprint, context: int, found: Accelerator, *, heads: bool) -> DeviceRoom:
    config = held.config
    if config is None:
        return NO_ROOM
    slots = context + MAX_TREE
    if found.simulated:
        return DeviceRoom(native_room(config, 0, slots, embeds=False, heads=heads), 0)
    return device_room(config, slots, heads=heads)
