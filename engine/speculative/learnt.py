"""What a controller has learnt of a pair on a machine, in a form that can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.speculative.costs import KnownMean


@dataclass(frozen=True, slots=True)
class Learnt:
    """Costs and means of one controller.

    Attributes:
        verify: seconds of target forwards by their rows.
        levels: seconds of a drafted level, or a step of the draft lane, by its width.
        means: whatever else the controller goes by, by name.
    """

    verify: tuple[KnownMean, ...] = ()
    levels: tuple[KnownMean, ...] = ()
    means: Mapping[str, KnownMean] = field(default_factory=dict)
