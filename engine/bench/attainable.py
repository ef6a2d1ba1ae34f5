"""What speculative decoding could reach at best, given what forwards cost here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.plan.throughput import expected_tokens


@dataclass(frozen=True, slots=True)
class Attainable:
    """The best chain: `depth` drafted tokens a round (0: none), and the speed they bring."""

    depth: int
    tokens_per_s: float
    speedup: float


def attainable(verify: Mapping[int, float], draft: float, acceptance: float) -> Attainable:
    """The best that any runtime with these times could do by drafting chains of fixed length.

    Args:
        verify: seconds of a target forward by its rows, 1 among them; between measured sizes a
            straight line is assumed.
        draft: seconds to draft one token.
        acceptance: probability that a drafted token is accepted once all before it were.
    """
    sizes = sorted(verify)
    times = [verify[size] for size in sizes]
    plain = 1 / verify[1]

    def speed(depth: int) -> float:
        seconds = float(np.interp(depth + 1, sizes, times)) + depth * draft
        return expected_tokens(depth, acceptance) / seconds

    best = max(range(sizes[-1]), key=speed)
    return Attainable(best, speed(best), speed(best) / plain)
