"""What the parallel loop is compared with: the paper's machine, and drafting in turns.

Formulas for verifications that take as long for any number of rows, and the same as it happens.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.lanes.script import MISSED, Played, Times

MOST_SEQUENCES = 8
DEEPEST = 64
"""Of the serial loop's chains."""


def papers_speed(first: float, hit: float, length: int) -> float:
    """Tokens per verification of the paper's machine (arXiv 2503.00784).

    Args:
        first: chance that a token of a chain is right.
        hit: that one of the sequences begins with the target's token.
        length: of the sequences.
    """
    whole: float = hit / (1 + hit - hit * first ** (length - 1))
    return 1 - whole + whole * sum(first**depth for depth in range(length))


def sequences(chances: Sequence[float], budget: int) -> int:
    """How many the paper drafts: by the theta rule, and so many that they share the budget."""
    found = 1
    while (
        found < min(MOST_SEQUENCES, len(chances), budget) and chances[found] > chances[0] ** 2
    ):  # fmt: skip
        found += 1
    return max(count for count in range(1, found + 1) if budget % count == 0)


def play_paper(trace: Sequence[int], times: Times, budget: int, count: int = 1) -> Played:
    """The paper's machine: `count` sequences of budget / count tokens while the target verifies.

    After full acceptance the sequence that begins with the target's token is verified; after a
    rejection, or where none begins with it, a round goes by that verifies nothing.
    """
    length = budget // count
    drafting = max(budget - count + 1, 1) * times.step(1)
    position, now, pending = 0, 0.0, 0
    tokens: list[int] = []
    seconds: list[float] = []
    last = len(trace) - length - 1
    while position < last:
        now += max(times.verify(max(pending, 1)), drafting)
        # The first token of a pending sequence is verified already; it counts when that was seen.
        accepted = _right(trace, position, pending - 1)
        whole = accepted >= pending - 1
        position += accepted + 1
        hit = MISSED < trace[position - 1] < count
        pending = length if whole and hit else 0
        tokens.append(position)
        seconds.append(now)
    return Played(tuple(tokens), tuple(seconds))


def serial_speed(first: float, times: Times, depth: int) -> float:
    """Tokens per second of drafting a chain and then verifying it."""
    tokens = sum(first**level for level in range(depth + 1))
    return tokens / (times.verify(depth + 1) + depth * times.step(1))


def best_depth(first: float, times: Times) -> int:
    """Of chains that are drafted and then verified."""
    return max(range(DEEPEST + 1), key=lambda depth: serial_speed(first, times, depth))


def play_serial(trace: Sequence[int], times: Times, depth: int) -> Played:
    """Chains of this depth are drafted, then verified."""
    position, round_s = 0, times.verify(depth + 1) + depth * times.step(1)
    tokens: list[int] = []
    while position < len(trace) - depth - 1:
        position += _right(trace, position, depth) + 1
        tokens.append(position)
    return Played(tuple(tokens), tuple(round_s * (index + 1) for index in range(len(tokens))))


def _right(trace: Sequence[int], position: int, most: int) -> int:
    """Tokens from a position on that the draft's likeliest ones are right about, of so many."""
    count = 0
    while count < most and trace[position + count] == 0:
        count += 1
    return count
