"""The comparison: cells of a table, each played with the same dice by all machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, sqrt

from engine.bench.lanes.others import best_depth, papers_speed, play_paper, play_serial, sequences
from engine.bench.lanes.ours import simulate_trace
from engine.bench.lanes.script import ChanceScript, Played, Times

FIRST = (0.5, 0.6, 0.7, 0.8, 0.9)
COSTS = (0.04, 0.07, 0.10, 0.15, 0.20, 0.33, 0.50)
SECOND = (0.3, 0.5)
BREADTHS = (0.0, 0.1, 0.3)
TOKENS = 1500
_STRETCHES = 10
_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Cell:
    """Speeds over plain decoding, where a verification takes 1 for any number of rows.

    Attributes:
        first, second: of the script.
        cost, breadth: of the draft's steps; see `Times.flat`.
        formula: of the paper's machine with one sequence, exactly.
        paper: the same as played, with sequences by the theta rule.
        serial: of drafting in turns with chains of the best depth.
        turns: of this loop, with trees, where the draft rests while the target verifies.
        ours: of this loop.
        over_paper, over_serial: by how many standard errors ours is faster.
    """

    first: float
    second: float
    cost: float
    breadth: float
    formula: float
    paper: float
    serial: float
    turns: float
    ours: float
    over_paper: float
    over_serial: float


def budget(cost: float) -> int:
    """Steps of the draft during a verification: the paper's budget."""
    return max(floor(1 / cost + _EXACT), 1)


def play(script: ChanceScript, cost: float, breadth: float, tokens: int, seed: int) -> Cell:
    """One cell."""
    trace, times = script.trace(tokens, seed), Times.flat(cost, breadth)
    steps = budget(cost)
    paper = play_paper(trace, times, steps, sequences(script.chances, steps))
    serial = play_serial(trace, times, best_depth(script.first, times))
    turns = simulate_trace(trace, script.candidates, times, overlap=False)
    ours = simulate_trace(trace, script.candidates, times)
    return Cell(
        script.first,
        script.second,
        cost,
        breadth,
        papers_speed(script.first, script.first, steps),
        paper.rate,
        serial.rate,
        turns.rate,
        ours.rate,
        _errors(ours, paper),
        _errors(ours, serial),
    )


def compare(
    firsts: Sequence[float],
    seconds: Sequence[float],
    costs: Sequence[float],
    breadths: Sequence[float],
    *,
    tokens: int = TOKENS,
    seed: int = 1,
) -> Iterator[Cell]:
    """All cells of the table."""
    for second, breadth, first, cost in product(seconds, breadths, firsts, costs):
        yield play(ChanceScript(first, second), cost, breadth, tokens, seed)


def _errors(one: Played, other: Played) -> float:
    """Standard errors of the difference, over stretches of the trace."""
    differences = one.rates(_STRETCHES) - other.rates(_STRETCHES)
    error = float(differences.std(ddof=1)) / sqrt(_STRETCHES)
    return (one.rate - other.rate) / max(error, _EXACT)
