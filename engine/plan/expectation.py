"""What a plan expects of drafting, in numbers: what decoding believes until it has measured."""

from __future__ import annotations

from dataclasses import dataclass

BUCKETS = (1, 2, 4, 8, 16, 32)
"""Rows of a target forward whose cost is told apart (and, on accelerators, graphs kept)."""

WIDTHS = (1, 2, 4, 10)
"""Nodes of a drafted level whose cost is told apart."""

USUAL_VERIFY = (1.0, 1.02, 1.05, 1.15, 1.5, 2.5)
USUAL_LEVELS = (1.0, 1.04, 1.1, 1.3)
"""What BUCKETS, and WIDTHS, cost to each other where nobody has told."""
USUAL_ACCEPTANCE = 0.6

NODES, DEPTH = 15, 7
"""Of the first tree, as Dovetail drafts them (arXiv 2412.18934)."""
NODES_OF_FEW_CORES, DEPTH_OF_FEW_CORES = 6, 4
"""The same where a processor with few cores verifies."""
FEW_CORES = 4


@dataclass(frozen=True, slots=True)
class Expectation:
    """Seconds and chances of a target and its draft, where the plan puts them.

    Attributes:
        verify: seconds of a target forward, for all BUCKETS.
        levels: seconds of a drafted level, for the first of WIDTHS; it gets no wider than these.
        acceptance: chance that a drafted token is accepted once all before it were.
        nodes, depth: of the first tree.
    """

    verify: tuple[float, ...]
    levels: tuple[float, ...]
    acceptance: float
    nodes: int = NODES
    depth: int = DEPTH


USUAL = Expectation(USUAL_VERIFY, tuple(0.1 * level for level in USUAL_LEVELS), USUAL_ACCEPTANCE)
"""Where nobody has told: the seconds only mean something to each other."""
