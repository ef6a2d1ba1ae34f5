"""Budgets of the kept sequences: as many as fit into the devices' memory beside all else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from engine.backend.ledger import Ledger, Purpose
from engine.backend.prefix_cache import PrefixCache
from engine.backend.segment import Share
from engine.loading.devices import Devices
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory
from engine.model.config import ModelConfig
from engine.plan.memory import KV_SHARE
from engine.plan.plan import Plan

TARGETS_SHARE = 0.75
"""The target's share of what is left for further sequences; a draft has the rest."""


def warm_up(pool: PrefixCache, shares: Sequence[Share]) -> Counter[str]:
    """Run one forward, so that the first answer does not pay for first touches.

    Returns:
        Bytes that one of the model's sequences takes on each device.
    """
    config = pool.decoder.config
    fusion = config.fusion if isinstance(config, ModelConfig) else None
    features = None if fusion is None else np.zeros((1, fusion.width), dtype=np.float32)
    state = pool.take([0])
    pool.decoder.forward(state, [0], features=features)
    state.discard()
    sizes: Counter[str] = Counter()
    for share, cache in zip(shares, state.caches, strict=True):
        sizes[share.device] += cache.nbytes
    sizes[CPU] += state.features.nbytes if state.features else 0
    return sizes


def set_cache_budgets(
    pools: Sequence[PrefixCache], sizes: Sequence[Counter[str]], devices: Devices, plan: Plan
) -> None:
    """Let the pools keep as many sequences as there is room for; each one has a sequence already.

    An accelerator's caches are taken whole, so that what is left there decides. On the host they
    grow as they are used, and have a part of its memory.

    Args:
        pools: the target's, and the draft's if there is one.
        sizes: for each, what `warm_up` returned.
        devices: where the models lie.
        plan: what was to be held there.
    """
    left = {
        name: _room(device.ledger, plan.on(name)) - sum(size[name] for size in sizes)
        for name, device in devices.items()
    }
    parts = (TARGETS_SHARE, 1 - TARGETS_SHARE) if len(pools) > 1 else (1.0,)
    for pool, size, part in zip(pools, sizes, parts, strict=True):
        more = (max(left[name], 0) * part / nbytes for name, nbytes in size.items() if nbytes)
        pool.budget_bytes = pool.nbytes * (1 + int(min(more, default=0)))


def _room(ledger: Ledger, planned: DeviceMemory) -> int:
    """Return the bytes that all KV caches on a device may take together."""
    if ledger.device == CPU:
        return int((planned.budget - planned.target - planned.draft) * KV_SHARE)
    lines = ledger.lines()
    beside = sum(line.nbytes for line in lines if line.purpose is not Purpose.KV)
    return planned.budget - max(beside, planned.total - planned.kv)
