"""When the parallel loop drafts, waits and verifies: decisions, from what was measured.

The draft lane computes the likeliest open nodes while the target verifies (arXiv 2503.00784). Three
questions are left. How many nodes a step takes: as many as bring more than the time that they add.
Whether an idle target waits for the running step: where what it promises is worth more than that
time, as the serial loop would; otherwise the target goes at once, as the paper's does. And how much
of the tree is verified: as many of its best nodes as are worth their rows. No clock and no thread:
the loop and the simulator ask the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

from engine.plan.plan import WIDTHS
from engine.speculative.costs import Seconds
from engine.speculative.draft_tree import DraftPace

_WIDE = WIDTHS[2]
"""Most nodes of a step: beyond that drafts that are not heads are not measured."""
_FLOOR = 0.01
"""Acceptance below 1 %: not worth the energy."""
_MOST_AHEAD = 128
"""Nodes whose keys wait in the draft's state."""


@dataclass(frozen=True, slots=True)
class LaneCosts:
    """Costs and gains of both lanes, as far as they are known.

    Attributes:
        verify: seconds of a target forward by its rows.
        step: seconds of a step of the draft by its nodes.
        rate: tokens that a second is worth; 0: nothing is known yet.
        trust: what is accepted, to what the draft's chances promise.
        goes_on: chance that the path goes on below a node that was accepted.
    """

    verify: Seconds
    step: Seconds
    rate: float = 0.0
    trust: float = 1.0
    goes_on: float = 0.6


def pace(lanes: LaneCosts, *, overlap: bool = True) -> DraftPace:
    """Return how the draft worker should go on.

    A further node of a step costs b steps, so it has to be b times as likely as the best one. And
    b c verifications: where c is large even a little more is a whole step that comes too late for
    the next verification. The theta that brings most grows with the root of b c, whatever the
    draft's chances (played in tests/engine/plan/played_lanes.py).

    Args:
        lanes: what is known.
        overlap: whether it drafts while the target verifies.
    """
    alone, once = lanes.step(1), lanes.verify(1)
    if alone <= 0 or once <= 0:
        return DraftPace(floor=_FLOOR, overlap=overlap)
    more = max(lanes.step(_WIDE) - alone, 0.0) / (_WIDE - 1)
    theta = min(max(more / alone, 2 * sqrt(more / once)), 1.0)
    width = _WIDE if theta < 1 else 1
    ahead = width * (ceil(once / alone) + 1)
    return DraftPace(width, theta, ahead=min(ahead, _MOST_AHEAD), floor=_FLOOR, overlap=overlap)


def worth_waiting(lanes: LaneCosts, promise: float, left: float, *, overlap: bool = True) -> bool:
    """Tell whether an idle target should wait for a drafting step instead of verifying at once.

    What the step adds is accepted where one of its nodes comes true and the path goes on behind it.
    In turns that would be lost otherwise. With both lanes at work it is not: the step ends while
    the target verifies, and what it adds is verified next if the path goes on. So its promise
    counts as far as the path is unlikely to go on through all that is drafted meanwhile: with a
    fast draft the target waits as the serial loop does, with a slow one it never does, as in the
    paper.

    Args:
        lanes: what is known.
        promise: chance that one of the step's nodes comes true.
        left: seconds until it ends.
        overlap: whether the draft works while the target verifies.
    """
    alone, once = lanes.step(1), lanes.verify(1)
    if alone <= 0 or once <= 0:
        return False
    gain = min(promise * lanes.trust, 1.0) * lanes.goes_on
    if overlap:
        gain *= 1 - lanes.goes_on ** (once / alone)
    return gain > (lanes.rate or 1 / max(once, left)) * left
