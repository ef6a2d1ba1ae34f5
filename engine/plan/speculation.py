"""What drafting brings: tokens per second of the serial and of the parallel loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.plan.cost import DEEPEST
from engine.plan.footprint import Numbers


@dataclass(frozen=True, slots=True)
class Pace:
    """Tokens per second for every cut, and the tokens of a drafted chain that bring them."""

    tokens_per_s: Numbers
    depth: Numbers


def expected_tokens(depth: int, acceptance: float) -> float:
    """Mean tokens of a round: accepted ones of a chain of `depth`, and the target's own."""
    return sum(acceptance**accepted for accepted in range(depth + 1))


def plain(verify: Numbers) -> Pace:
    """The target alone.

    Args:
        verify: [rows, cuts], seconds of a target forward over 1, 2, ... rows.
    """
    return Pace(1 / verify[0], np.zeros_like(verify[0]))


def serial(verify: Numbers, draft: float, acceptance: float) -> Pace:
    """Draft a chain, then verify it; the depth that pays best.

    Args:
        verify: as in `plain`.
        draft: seconds to draft one token.
        acceptance: chance that a drafted token is accepted once all before it were.
    """
    paces = [
        expected_tokens(depth, acceptance) / (verify[depth] + depth * draft)
        for depth in range(1, DEEPEST + 1)
    ]
    best = np.argmax(paces, axis=0)
    return Pace(np.max(paces, axis=0), best + 1.0)


def parallel(verify: Numbers, draft: float, acceptance: float) -> Pace:
    """Draft the next chain while the last one is verified, as DuoDecoding does with one sequence.

    A chain has as many tokens as are drafted during a verification. After a rejection a round goes
    by that verifies a single token: with acceptance a and chains of L, a share of v = a / (1 + a -
    a^L) of the rounds verify a chain, which brings (1 - a^L) / (1 - a) tokens.
    """
    steps = verify[0] / draft
    depth = np.clip(np.floor(steps), 1, DEEPEST)
    rows = verify[depth.astype(np.int64), np.arange(len(depth))]
    round_s = np.maximum(rows, depth * draft)
    lost = acceptance**depth
    share = acceptance / (1 + acceptance - lost)
    chain_tokens = (1 - lost) / (1 - acceptance) if acceptance < 1 else depth
    return Pace(((1 - share) + share * chain_tokens) / round_s, depth)
