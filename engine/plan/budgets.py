"""How many bytes of each device a plan may take, and how long the context is.

The context depends on the model, on memory and on the accelerator's size, never on the ceiling of
VRAM: moving the slider does not change what a conversation may hold, and what is on the accelerator
only grows with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.accelerator.sizes import shared_bytes
from engine.backend.decoder import MAX_TREE
from engine.errors import NotPossible
from engine.language import tr
from engine.machine.facts import Accelerator, Host, Vendor
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Footprint
from engine.plan.memory import device_room

KV_SHARE = 0.25
"""Share of the free memory that the KV caches of all conversations may take together."""

DEVICE_KV_SHARE = 0.125
"""Share of an accelerator's memory that the KV cache of one conversation may need."""

SMALLEST_CONTEXT = 256
COMFORTABLE_CONTEXT = 4096
"""An accelerator's size does not cut the context below this."""

MIB = 2**20

_HOST_RESERVE, _HOST_RESERVE_SHARE = 512 * MIB, 1 / 32
_DEVICE_RESERVE, _DEVICE_RESERVE_SHARE = 200 * MIB, 1 / 32
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


def host_reserve(host: Host) -> int:
    """Return the bytes of free memory that are left alone, so that nothing has to be swapped."""
    return int(min(_HOST_RESERVE, host.memory_available * _HOST_RESERVE_SHARE))


def device_reserve(found: Accelerator) -> int:
    """Return the bytes of an accelerator's free memory that are left to other programs."""
    if found.shares_host_memory:
        return 0
    return int(max(_DEVICE_RESERVE, (found.memory_total or 0) * _DEVICE_RESERVE_SHARE))


def device_limit(found: Accelerator) -> int:
    """The most that our process may hold on an accelerator."""
    free = found.memory_total if found.memory_free is None else found.memory_free
    return max((free or 0) - device_reserve(found), 0)


def runtime_bytes(found: Accelerator) -> int:
    """Return the bytes of a device's software and fixed memory: measured, or else the usual."""
    if found.declared_software is not None:
        return found.declared_software
    if found.software is not None:
        return min(max(found.software, shared_bytes()), _MOST_RUNTIME)
    return shared_bytes() + _RUNTIMES.get(found.vendor, 0)


def with_slack(found: Accelerator, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add what torch's allocator loses by rounding to numbers of bytes."""
    return nbytes if found.takes_core else nbytes + nbytes // _SLACK


def context_for(
    host_budget: int,
    accelerator: Accelerator | None,
    target: ModelFacts,
    drafts: Sequence[DraftFacts],
    wish: Wish,
) -> int:
    """Return the planned context in tokens.

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
    weights = sum(each.weight_bytes for each in held)
    per_token = sum(each.kv_bytes_per_token for each in held)
    features = sum(each.feature_bytes_per_token for each in held)
    tokens = _tokens((host_budget - weights) * KV_SHARE, per_token + features)
    if accelerator is not None:
        size = accelerator.memory_total or 0
        if tokens < COMFORTABLE_CONTEXT and not accelerator.shares_host_memory:
            tokens = _tokens((host_budget + size - weights) * KV_SHARE, per_token)
        tokens = min(tokens, max(_tokens(size * DEVICE_KV_SHARE, per_token), COMFORTABLE_CONTEXT))
        tokens = min(tokens, target.max_positions)
        whole = _that_leave_room(accelerator, held, tokens)
        if COMFORTABLE_CONTEXT <= whole < tokens:
            tokens = whole
    return min(target.max_positions, max(tokens, SMALLEST_CONTEXT))


def _that_leave_room(found: Accelerator, models: Sequence[Footprint], tokens: int) -> int:
    """Return how many tokens let all models just fit on an accelerator; at most `tokens`."""
    usable = int((found.memory_total or 0) * _USUALLY_FREE) - device_reserve(found)
    rooms = [
        device_room(held.config, tokens + MAX_TREE, heads=True)
        for held in models
        if held.config is not None
    ]
    usable -= sum(room.own for room in rooms) + max((room.shared for room in rooms), default=0)
    usable -= usable // _SLACK + runtime_bytes(found)
    usable -= sum(held.weight_bytes for held in models)
    per_token = sum(held.kv_bytes_per_token for held in models)
    return min(_tokens(usable, per_token) - MAX_TREE - _CHUNKS, tokens)


def _tokens(nbytes: float, per_token: int) -> int:
    return int(max(nbytes, 0)) // max(per_token, 1)
