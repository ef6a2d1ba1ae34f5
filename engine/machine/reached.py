"""What answers reached in a placement of models: later plans go by that, not by what they predict.

A prediction is a hypothesis. Answers measure what a placement gave; where that is clearly less than
predicted and another placement is, or is known to be, faster, the model moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_CPU = "cpu"
"""The name of `engine.machine.facts`, which holds what is here."""
FALLS_SHORT = 0.9
"""A placement that reaches less than this share of what was predicted is looked at again."""
WORTH_MOVING = 1.05
"""Another one has to be so many times as fast as what was reached."""


class PlacementKind(StrEnum):
    """Placements that share what makes a prediction wrong."""

    CPU = "cpu"
    """No accelerator takes part; where drafts do not pay, the target decodes alone."""
    ALONE = "alone"
    TURNS = "turns"
    BOTH = "both"
    """With an accelerator: the target alone, drafting in turns, drafting at the same time."""


@dataclass(frozen=True, slots=True)
class PlacementKey:
    """A placement as far as its speed goes.

    Attributes:
        drafts: whether a draft model takes part.
        draft_device: where drafts come from; "" where nothing drafts.
        parallel: whether drafting and verifying run at the same time.
        cut: blocks on the accelerator, and one more where it has the head.
    """

    drafts: bool
    draft_device: str
    parallel: bool
    cut: int

    @property
    def kind(self) -> PlacementKind:
        """The part that it shares with similar placements."""
        if not self.cut and self.draft_device in ("", _CPU):
            return PlacementKind.CPU
        if not self.draft_device:
            return PlacementKind.ALONE
        return PlacementKind.BOTH if self.parallel else PlacementKind.TURNS


@dataclass(frozen=True, slots=True)
class Reached:
    """The speed that answers of a pair of models reached in one placement.

    Attributes:
        models: the `engine.plan.facts.key_of` of target and draft.
        tokens_per_s: mean over the tokens of the last answers.
        acceptance: share of the draft's likeliest tokens that were accepted; None: not known.
        pace: what a simulated accelerator declares, relative to the time it took; None: it has
            none, or took no part.
    """

    models: str
    placement: PlacementKey
    tokens_per_s: float
    acceptance: float | None = None
    pace: float | None = None
