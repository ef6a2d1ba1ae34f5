"""Counts along the way are those that the statistics of the whole answer would tell."""

from __future__ import annotations

from engine.events import Interval, RoundFinished
from engine.server.progress import CompletionProgress


def test_counts_add_up_round_by_round() -> None:
    progress = CompletionProgress(7)
    assert progress.acceptance_length is None
    rounds = ((0, 0, 1), (4, 2, 3), (0, 0, 1), (2, 0, 1), (3, 3, 4))  # drafted, accepted, committed
    for index, (drafted, accepted, committed) in enumerate(rounds):
        verify = Interval(index, index + 1)
        progress.add(RoundFinished(index, "a", index, (), verify, drafted, accepted, committed))
    assert (progress.prompt_tokens, progress.committed) == (7, 10)
    assert (progress.rounds, progress.plain_rounds) == (4, 1)
    assert (progress.drafted, progress.accepted) == (9, 5)
    assert progress.acceptance_length == (3 + 1 + 4) / 3
