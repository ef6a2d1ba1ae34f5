"""How many sequences are kept: as many as the devices' memory holds beside everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.backend.ledger import Ledger, Purpose
from engine.backend.segment import Share
from engine.backend.state_pool import StatePool
from engine.loading.placing import Devices
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats
from engine.plan.budgets import KV_SHARE
from engine.plan.plan import Plan

TARGETS_SHARE = 0.75
"""Of what is left for further sequences; a draft has the rest."""


@dataclass(slots=True)
class KeptStates:
    """The sequences of one model; `sizes`: bytes that one of them takes on each device."""

    pool: StatePool
    shares: Sequence[Share]
    sizes: Counter[str] = field(default_factory=Counter)

    def warm_up(self) -> None:
        """One forward, so that the first answer does not pay for first touches."""
        state = self.pool.take([0])
        self.pool.decoder.forward(state, [0], features=self._no_features())
        state.discard()
        for share, cache in zip(self.shares, state.caches, strict=True):
            self.sizes[share.device] += cache.nbytes
        self.sizes[CPU] += state.features.nbytes if state.features else 0

    def _no_features(self) -> Floats | None:
        """What stands in for a target's features; None where the model takes none."""
        config = self.pool.decoder.config
        fusion = config.fusion if isinstance(config, ModelConfig) else None
        return None if fusion is None else np.zeros((1, fusion.width), dtype=np.float32)


def give_room(models: Sequence[KeptStates], devices: Devices, plan: Plan) -> None:
    """Let the pools keep as many sequences as there is room for; each model, warm, has one.

    An accelerator's caches are taken whole, so that what is left there decides. On the host they
    grow as they are used, and have a part of its memory.
    """
    left = {
        name: _room(device.ledger, plan.on(name)) - sum(model.sizes[name] for model in models)
        for name, device in devices.items()
    }
    parts = (TARGETS_SHARE, 1 - TARGETS_SHARE) if len(models) > 1 else (1.0,)
    for model, part in zip(models, parts, strict=True):
        more = (max(left[name], 0) * part / size for name, size in model.sizes.items() if size)
        model.pool.budget_bytes = model.pool.nbytes * (1 + int(min(more, default=0)))


def _room(ledger: Ledger, planned: DeviceMemory) -> int:
    """Bytes that all keys and values on a device may take together."""
    if ledger.device == CPU:
        return int((planned.budget - planned.target - planned.draft) * KV_SHARE)
    lines = ledger.lines()
    beside = sum(line.nbytes for line in lines if line.purpose is not Purpose.KV)
    return planned.budget - max(beside, planned.total - planned.kv)
