"""What plans for a model were off by on a device, as factors for later ones; within bounds.

The factors come from what loads on this machine held in truth (`engine.hardware.kept_estimates`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LOWEST, HIGHEST = 0.8, 1.5
"""Of a correcting factor: whatever was measured, a plan stays near what arithmetic says."""
_FINE_SHARE = 0.01
_FINE_BYTES = 8 << 20
"""What is off by less is not worth a correction."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors for what is predicted of a pair of models on one device, by purpose.

    `models`: see `engine.plan.known.key_of`.
    """

    models: str
    device: str
    target: float = 1.0
    draft: float = 1.0
    kv: float = 1.0
    workspace: float = 1.0


EXACT = Correction("", "")
"""Nothing is known to be off."""


def correction_for(known: Iterable[Correction], models: str, device: str) -> Correction:
    """What is known of these models there."""
    fitting = (each for each in known if (each.models, each.device) == (models, device))
    return next(fitting, EXACT)


def factor(predicted: int, held: int) -> float:
    """What a prediction has to be multiplied with, within the bounds; 1 where it is fine."""
    if not predicted or abs(held - predicted) <= max(_FINE_SHARE * predicted, _FINE_BYTES):
        return 1.0
    return bounded(held / predicted)


def bounded(value: float) -> float:
    """Within the bounds, also what a damaged file may hold."""
    return min(max(value, LOWEST), HIGHEST)
