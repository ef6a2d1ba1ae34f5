"""What a scripted draft says in parallel: its first and second choices."""

from __future__ import annotations

from collections import Counter
from math import exp, log

import numpy as np
import pytest

from engine.bench.lane_script import LaneLines, LanePrompter, write_lines

VOCAB = 64
TEXT = [7 * place % VOCAB for place in range(100)]


def test_as_many_are_right_as_told_of_every_stretch() -> None:
    lines = write_lines(TEXT, VOCAB, 0.6, 0.5, seed=3)
    for part in (lines.ranks[:50], lines.ranks[50:]):
        assert Counter(part) == {0: 30, 1: 10, None: 10}
    assert lines.ranks != write_lines(TEXT, VOCAB, 0.6, 0.5, seed=4).ranks


def test_the_ranks_tell_where_the_right_token_is() -> None:
    lines = write_lines(TEXT, VOCAB, 0.6, 0.5, seed=3)
    for place, token in enumerate(TEXT):
        said = [choice for choice, _ in lines.choices(place)]
        assert len(set(said)) == 2
        assert lines.ranks[place] == (said.index(token) if token in said else None)
    assert [exp(weight) for _, weight in lines.choices(0)] == pytest.approx([0.6, 0.2])


def test_what_the_draft_says_itself_comes_behind_and_is_never_right() -> None:
    lines = LaneLines([5, 6, 7], [0, 1, None], 0.5, 0.25, VOCAB)
    own = [(9, log(0.5)), (7, log(0.3)), (8, log(0.1))]
    assert [token for token, _ in lines.put_in(own, 0, 4)] == [5, 7, 9, 8]
    assert [token for token, _ in lines.put_in(own, 1, 3)] == [7, 6, 9]
    found = lines.put_in(own, 2, 8)
    assert [token for token, _ in found] == [8, 9]  # 7 would be right
    chances = [exp(weight) for _, weight in lines.put_in(own, 0, 4)]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) <= 1


def test_without_second_choices() -> None:
    lines = write_lines(TEXT, VOCAB, 0.5, 0.0, seed=1)
    assert set(lines.ranks) == {0, None}
    assert [len(lines.choices(place)) for place in range(3)] == [1, 1, 1]


def test_past_the_text_nothing_is_right() -> None:
    lines = write_lines(TEXT, VOCAB, 1.0, 0.0, seed=1)
    assert lines.choices(len(TEXT) + 5)[0][0] != 0


def test_chains_get_the_first_choices() -> None:
    lines = write_lines(TEXT, VOCAB, 0.6, 0.5, seed=3)
    assert list(lines.script.tokens) == [lines.choices(place)[0][0] for place in range(100)]
    assert exp(lines.script.weight) == pytest.approx(0.6)


def test_ranking_here_says_the_same() -> None:
    lines = write_lines(TEXT, VOCAB, 0.6, 0.5, seed=3)
    logits = np.random.default_rng(0).normal(size=(2, VOCAB)).astype(np.float32)
    for place in range(20):
        weights = LanePrompter(lines).rank(logits, place)
        for row in weights:
            best = [int(token) for token in np.argsort(-row, kind="stable")[:2]]
            assert best == [token for token, _ in lines.choices(place)]
            if lines.ranks[place] is None:
                assert row[TEXT[place]] == -np.inf
