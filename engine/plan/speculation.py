"""What drafting brings: tokens per second of the serial and of the parallel loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from engine.plan import both_lanes
from engine.plan.cost import DEEPEST, ROWS
from engine.plan.footprint import Numbers

NEXT_CHOICE = 0.3
"""Of the tokens that a draft's choices have missed so far, what its next choice is right about.

With it a tree of 26 nodes brings a quarter more tokens than a chain of five, as EAGLE-1's did
(arXiv 2401.15077, the ablation of tree attention).
"""

DEPTHS = range(1, DEEPEST + 1)

_PARALLEL_ROWS = (1, 3, 7, len(ROWS) - 1)
"""Drafted nodes of the parallel loop's verifications that are weighed."""
_CANDIDATES = 4
"""Children of a node there."""


@dataclass(frozen=True, slots=True)
class ExpectedPace:
    """Tokens per second for every cut, and the levels of drafting that bring them."""

    tokens_per_s: Numbers
    depth: Numbers


def expected_tokens(depth: int, acceptance: float) -> float:
    """Mean tokens of a round: accepted ones of a chain of `depth`, and the target's own."""
    return sum(acceptance**accepted for accepted in range(depth + 1))


@lru_cache(maxsize=64)
def tree_tokens(acceptance: float, width: int) -> Numbers:
    """[DEEPEST, nodes + 1]: mean tokens of rounds with the best tree of 0, 1, ... nodes by depth.

    Args:
        acceptance: chance that a draft's likeliest token is accepted once all before it were.
        width: most children of a node.
    """
    most = len(ROWS) - 1
    return np.array([_best_nodes(acceptance, width, depth, most) for depth in DEPTHS]).cumsum(1)


def _best_nodes(acceptance: float, width: int, depth: int, most: int) -> list[float]:
    """1 for the target's own token, then the chances of the likeliest paths, best first."""
    missed = (1 - acceptance) * (1 - NEXT_CHOICE) ** np.arange(width - 1)
    ranks = [acceptance, *(missed * NEXT_CHOICE)]
    chances = [1.0]
    open_nodes = [(-acceptance, 1, 0, 1.0)]  # of a path, its depth, its rank, its parent's
    while open_nodes and len(chances) <= most:
        negative, level, rank, parent = heappop(open_nodes)
        chances.append(-negative)
        if rank + 1 < width:
            heappush(open_nodes, (-parent * ranks[rank + 1], level, rank + 1, parent))
        if level < depth:
            heappush(open_nodes, (negative * acceptance, level + 1, 0, -negative))
    return chances + [0.0] * (most + 1 - len(chances))


def plain(verify: Numbers) -> ExpectedPace:
    """The target alone.

    Args:
        verify: [rows, cuts], seconds of a target forward over 1, 2, ... rows.
    """
    return ExpectedPace(1 / verify[0], np.zeros_like(verify[0]))


def serial(verify: Numbers, draft: float, acceptance: float) -> ExpectedPace:
    """Draft a chain, then verify it; the depth that pays best.

    Args:
        verify: as in `plain`.
        draft: seconds to draft one token.
        acceptance: chance that a drafted token is accepted once all before it were.
    """
    paces = [
        expected_tokens(depth, acceptance) / (verify[depth] + depth * draft) for depth in DEPTHS
    ]
    best = np.argmax(paces, axis=0)
    return ExpectedPace(np.max(paces, axis=0), best + 1.0)


def in_trees(
    verify: Numbers, level: float, begin: float, acceptance: float, width: int
) -> ExpectedPace:
    """Draft a tree level by level, then verify its best nodes; depth and nodes that pay best.

    Args:
        verify: as in `plain`.
        level: seconds to draft one level.
        begin: seconds that a round's drafting takes besides.
        acceptance: chance that the likeliest token is accepted once all before it were.
        width: nodes of a level, and children of a node.
    """
    tokens = tree_tokens(acceptance, width)[:, 1:]
    drafting = begin + level * np.array(DEPTHS)
    paces = tokens[:, :, None] / (verify[None, 1:] + drafting[:, None, None])
    flat = paces.reshape(-1, paces.shape[2])
    return ExpectedPace(flat.max(axis=0), flat.argmax(axis=0) // tokens.shape[1] + 1.0)


def parallel(verify: Numbers, draft: float, breadth: float, acceptance: float) -> ExpectedPace:
    """Draft while the target verifies, as DuoDecoding does here: see `engine.plan.both_lanes`.

    What was played with verifications that take as long for any number of rows is taken for those
    of the rows that pay best; and no round brings more than the best tree of so many.

    Args:
        verify: as in `plain`.
        draft: seconds of a step with one node.
        breadth: of every further node of it, as a share of that.
        acceptance: as in `serial`.
    """
    played, most = _played(acceptance, breadth), tree_tokens(acceptance, _CANDIDATES)[-1]
    places = np.log(both_lanes.COSTS)
    rates = [
        np.minimum(np.interp(np.log(draft / verify[rows]), places, played), most[rows])
        / verify[rows]
        for rows in _PARALLEL_ROWS
    ]
    depth = np.clip(np.floor(verify[0] / draft), 1, DEEPEST)
    return ExpectedPace(np.max(rates, axis=0), depth)


@lru_cache(maxsize=64)
def _played(acceptance: float, breadth: float) -> Numbers:
    """Tokens by cost, between the nearest chances and breadths that were played."""
    table = np.array(both_lanes.TOKENS)
    for axis, value in ((both_lanes.BREADTHS, breadth), (both_lanes.FIRST, acceptance)):
        after = int(np.clip(np.searchsorted(axis, value), 1, len(axis) - 1))
        below, above = axis[after - 1], axis[after]
        part = float(np.clip((value - below) / (above - below), 0, 1))
        table = table[after - 1] * (1 - part) + table[after] * part
    return table
