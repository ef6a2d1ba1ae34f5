"""What the planner is told: models as far as they matter to it, and what the user asked for."""

from __future__ import annotations

from dataclasses import dataclass

from engine.commands import Mode
from engine.plan.footprint import Footprint

USUAL_TOKENS = 512
"""Of a conversation."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the planner knows of a model.

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
        """Whether it drafts from the target's hidden states."""
        return self.model.footprint.fusion is not None


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for.

    Attributes:
        context: tokens; None: as many as model and memory allow.
        lookup: whether the conversation itself may propose tokens.
        forced: always draft, as the mode or the draft was asked for by name.
        vram: bytes of an accelerator at most; None: as many as are useful.
        layers_on_gpu: exactly so many target blocks there; None: the planner chooses.
        parallel: whether drafting and verifying at the same time can be chosen.
        tokens: of the conversation that speeds are predicted for.
    """

    mode: Mode
    context: int | None
    lookup: bool
    forced: bool
    vram: int | None = None
    layers_on_gpu: int | None = None
    parallel: bool = True
    tokens: int = USUAL_TOKENS
