"""Corrections put to use: whose they are, and holdings as they will really be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from engine.machine.correction import EXACT, Correction, bounded, correction_for
from engine.machine.facts import CPU, Machine
from engine.plan.facts import DraftFacts, ModelFacts
from engine.plan.holding import Bytes, Holding


def key_of(target: ModelFacts, drafts: Sequence[DraftFacts]) -> str:
    """A hash of what the memory of models depends on beside context and placement."""
    facts = [_facts(model) for model in (target, *(draft.model for draft in drafts))]
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _facts(model: ModelFacts) -> tuple[str | int, ...]:
    held = model.footprint
    sizes = held.weight_bytes, len(held.blocks), held.kv_bytes_per_token
    return model.name, str(held.format), held.kind, *sizes


@dataclass(frozen=True, slots=True)
class PairCorrections:
    """Corrections for a target and its draft, on the host and on an accelerator."""

    host: Correction = EXACT
    device: Correction = EXACT

    @classmethod
    def of(cls, machine: Machine, models: str, device: str | None) -> PairCorrections:
        """What a machine knows of models, by their `key_of`."""
        known = machine.corrections
        there = EXACT if device is None else correction_for(known, models, device)
        return cls(correction_for(known, models, CPU), there)


NOTHING_KNOWN = PairCorrections()


def of_target(held: Holding, known: Correction) -> Holding:
    """What a target holds, corrected."""
    return _times(held, known.target, known)


def of_draft(held: Holding, known: Correction) -> Holding:
    """What a draft holds, corrected."""
    return _times(held, known.draft, known)


def _times(held: Holding, weights: float, known: Correction) -> Holding:
    if (weights, known.kv, known.workspace) == (1.0, 1.0, 1.0):
        return held
    work = known.workspace
    return Holding(
        _scaled(held.weights, weights),
        _scaled(held.kv, known.kv),
        _scaled(held.workspace, work),
        _scaled(held.shared, work),
    )


def _scaled(nbytes: Bytes, by: float) -> Bytes:
    if by == 1.0:
        return nbytes
    scaled: Bytes = np.ceil(nbytes * bounded(by)).astype(np.int64)
    return scaled
