"""What the planner is told: models as far as they matter to it, and what the user asked for.

Drafts that nobody has measured with their target are taken to be as good as others of their kind:
the probabilities that a draft's likeliest token is accepted are chosen so that
`throughput.tree_tokens` gives the acceptance lengths that were published: DGF with five blocks on
MT-bench about 4.8 with 15 nodes (arXiv 2412.18934: 5.9 on HumanEval, and the speed-ups of both to
each other); EAGLE-2 on chats between 4 and 5.5 with 59 (arXiv 2406.16858); EAGLE-3 heads about 6
with 59 as published by its authors (arXiv 2503.01840), and about 2.0 for chains of two as others
trained them (AngelSlim's table of Qwen3 models): 0.83 and 0.62.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from engine.backend.webgpu.served import why_not_served
from engine.commands import KvType, Mode
from engine.language import tr
from engine.machine.facts import Accelerator, Machine
from engine.model.config import Fusion, FusionKind, ModelConfig
from engine.plan.footprint import Footprint

USUAL_TOKENS = 512
"""Tokens of a usual conversation."""

HEAD_WIDTH = 10
"""Nodes of a level of a feature head's trees."""

STANDALONE = 0.7
"""Acceptance of a small model of the target's family."""

_HEADS: dict[FusionKind, float] = {"dgf": 0.75, "linear": 0.73, "mtp": 0.75, "eagle3": 0.7}
"""Acceptance of feature heads of one block; of "mtp" by reports of three drafted tokens."""
_PER_BLOCK, _MOST_BLOCKS = 0.0125, 5
"""Acceptance that a further block of DGF adds, and how many do: a sixth added little."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The planner's facts about a model.

    `other_family`: the family of a model that runs through transformers; it cannot verify drafts.
    """

    name: str
    footprint: Footprint
    max_positions: int
    other_family: str = ""


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """A model that could draft.

    Attributes:
        acceptance: chance that its likeliest token is accepted once all before it were.
        width: nodes of a level of its trees; 1: it is taken to draft chains.
    """

    model: ModelFacts
    acceptance: float
    width: int = 1

    @property
    def is_head(self) -> bool:
        """Tell whether it drafts from the target's hidden states."""
        return self.model.footprint.fusion is not None

    def runs_on(self, found: Accelerator) -> bool:
        """Tell whether it can draft on an accelerator; one with states drafts there in no call."""
        config = self.model.footprint.config
        if config is None or not found.webgpu:
            return True
        return not (config.recurrent or why_not_served(config))


def that_serves(machine: Machine, target: ModelConfig) -> Machine:
    """Return the machine, its devices unusable where they cannot run a model."""
    if not machine.accelerators:
        return machine
    shaders, torch = why_not_served(target), ""
    if target.recurrent:
        torch = tr("Duotail runs models with recurrent states on the CPU or through WebGPU")
    elif target.uneven:
        torch = tr("Duotail runs models whose blocks differ on the CPU or through WebGPU")

    def reason(found: Accelerator) -> str:
        if found.unusable or found.takes_core:
            return found.unusable
        return shaders if found.webgpu else torch

    every = tuple(replace(found, unusable=reason(found)) for found in machine.accelerators)
    return replace(machine, accelerators=every)


@dataclass(frozen=True, slots=True)
class Wish:
    """The user's wishes for a plan.

    Attributes:
        context: tokens; None: as many as model and memory allow.
        lookup: whether the conversation itself may propose tokens.
        forced: always draft, as the mode or the draft was asked for by name.
        vram: bytes of an accelerator at most; None: as many as are useful.
        layers_on_gpu: exactly so many target blocks there; None: the planner chooses.
        threads: of the CPU; None: by the size of its share. Speeds are predicted with the latter.
        parallel: whether drafting and verifying at the same time can be chosen.
        tokens: of the conversation that speeds are predicted for.
        kv: type of keys and values, where the device has a choice.
    """

    mode: Mode
    context: int | None
    lookup: bool
    forced: bool
    vram: int | None = None
    layers_on_gpu: int | None = None
    threads: int | None = None
    parallel: bool = True
    tokens: int = USUAL_TOKENS
    kv: KvType = KvType.F16


def usual_draft(model: ModelFacts, acceptance: float | None = None) -> DraftFacts:
    """Return a draft as far as it is known; `acceptance` where that is known as well."""
    fusion = model.footprint.fusion
    if acceptance is None:
        acceptance = _usual_acceptance(fusion, len(model.footprint.blocks))
    return DraftFacts(model, acceptance, HEAD_WIDTH if fusion else 1)


def _usual_acceptance(fusion: Fusion | None, blocks: int) -> float:
    if fusion is None:
        return STANDALONE
    more = min(blocks, _MOST_BLOCKS) - 1 if fusion.kind == "dgf" else 0
    return _HEADS[fusion.kind] + _PER_BLOCK * more


def key_of(target: ModelFacts, drafts: Sequence[DraftFacts]) -> str:
    """Return a hash of what the memory of models depends on beside context and placement."""
    facts = [_key_facts(model) for model in (target, *(draft.model for draft in drafts))]
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _key_facts(model: ModelFacts) -> tuple[str | int, ...]:
    held = model.footprint
    sizes = held.weight_bytes, len(held.blocks), held.kv_bytes_per_token
    return model.name, str(held.format), held.kind, *sizes
