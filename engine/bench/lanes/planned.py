"""What plans expect of the parallel loop, as a module of Python: engine/plan/both_lanes.py."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.lanes.ours import simulate_trace
from engine.bench.lanes.script import ChanceScript, Times
from engine.plan.throughput import NEXT_CHOICE

FIRST = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96)
COSTS = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.33, 0.5, 0.75, 1.0, 1.5, 2.0)
BREADTHS = (0.0, 0.1, 0.3, 1.0)
TOKENS, SEED = 1500, 1

_HEAD = '''"""Tokens that the parallel loop commits in the time of a verification, as played.

Written by `duotail bench lanes --for-plans`, in virtual time, for verifications that take as long
for any number of rows; `engine.plan.throughput.parallel` reads it.
"""

from __future__ import annotations

'''


def tokens_per_verification(first: float, cost: float, breadth: float) -> float:
    """Of the parallel loop; see `Times.flat`.

    Args:
        first: chance that the draft's likeliest token is right.
        cost: of a step of the draft, in verifications.
        breadth: of a further node of a step, in steps.
    """
    script = ChanceScript(first, NEXT_CHOICE)
    trace = script.trace(TOKENS, SEED)
    return simulate_trace(trace, script.candidates, Times.flat(cost, breadth)).rate


def module() -> str:
    """The text of the module."""
    lines = [
        f"FIRST = {FIRST}",
        '"""Chances that a draft\'s likeliest token is right."""',
        f"COSTS = {COSTS}",
        '"""Of a step of the draft, in verifications."""',
        f"BREADTHS = {BREADTHS}",
        '"""Of a further node of a step, in steps."""',
        "",
        "TOKENS = (",
    ]
    for breadth in BREADTHS:
        lines.append("    (")
        for first in FIRST:
            row = [tokens_per_verification(first, cost, breadth) for cost in COSTS]
            lines.append(f"        ({_listed(row)}),")
        lines.append("    ),")
    return _HEAD + "\n".join([*lines, ")", '"""By breadth, chance and cost."""', ""])


def _listed(row: Sequence[float]) -> str:
    return ", ".join(f"{tokens:.3f}" for tokens in row)
