"""When the parallel loop drafts, waits and verifies: decisions, from what was measured.

The draft lane computes the likeliest open nodes while the target verifies (arXiv 2503.00784). Three
questions are left. How many nodes a step takes: as many as bring more than the time that they add.
Whether an idle target waits for the running step: where what it promises is worth more than that
time, as the serial loop would; otherwise the target goes at once, as the paper's does. And how much
of the tree is verified: as many of its best nodes as are worth their rows. No clock and no thread:
the loop and the simulator ask the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, exp

from engine.decode.tree import TokenTree
from engine.draft.speculation import Pace
from engine.plan.expectation import WIDTHS

Seconds = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Lanes:
    """What both lanes cost and bring, as far as it is known.

    Attributes:
        verify: seconds of a target forward by its rows.
        step: seconds of a step of the draft by its nodes.
        rate: tokens per second of late; 0: nothing is known yet.
        trust: what is accepted, to what the draft's chances promise.
        goes_on: chance that the path goes on below a node that was accepted.
    """

    verify: Seconds
    step: Seconds
    rate: float = 0.0
    trust: float = 1.0
    goes_on: float = 0.6


def pace(lanes: Lanes, *, overlap: bool = True) -> Pace:
    """How the draft lane should go on.

    Args:
        lanes: what is known.
        overlap: whether it drafts while the target verifies.
    """
    alone, widest = lanes.step(1), WIDTHS[-1]
    if alone <= 0:
        return Pace(overlap=overlap)
    more = max(lanes.step(widest) / alone - 1, 0.0) / (widest - 1)
    theta = min(max(more, lanes.goes_on * lanes.goes_on), 1.0)
    width = widest if theta < 1 else 1
    steps = ceil(lanes.verify(1) / alone)
    return Pace(width, theta, ahead=2 * (steps + 1) * width, overlap=overlap)


def worth_waiting(lanes: Lanes, promise: float, left: float) -> bool:
    """Whether an idle target should wait for a step of the draft instead of verifying at once.

    A step that is not waited for is not lost: its nodes are there for the next verification. Only
    paths that would be verified before that are late. So the promise counts as far as a path that
    goes on would leave the target's next tree without them.

    Args:
        lanes: what is known.
        promise: chance that one of the step's nodes comes true.
        left: seconds until it ends.
    """
    alone = lanes.step(1)
    if alone <= 0:
        return False
    behind: float = lanes.goes_on ** (lanes.verify(1) / alone)
    gain = min(promise * lanes.trust, 1.0) * lanes.goes_on * (1 - behind)
    return gain > (lanes.rate or 1 / max(lanes.verify(1), left, 1e-9)) * left


def best_part(lanes: Lanes, tree: TokenTree) -> TokenTree:
    """As many of a tree's best nodes as their chance of acceptance is worth their rows."""
    tokens = list(
        accumulate((min(lanes.trust * exp(score), 1.0) for score in tree.scores[1:]), initial=1.0)
    )
    first = lanes.verify(1)
    rate = lanes.rate or (1 / first if first > 0 else 0.0)
    worths = [
        brought - rate * lanes.verify(rows) for rows, brought in enumerate(tokens, start=1)
    ]  # fmt: skip
    return tree.best(max(range(len(worths)), key=worths.__getitem__))
