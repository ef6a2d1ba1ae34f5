"""Rows of whole documents, and what may be learned from."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.request import Message, Role
from engine.train.conversations import Example
from engine.train.scratch.corpus import Documents
from engine.train.scratch.packing import Packer, filled, in_rows
from engine.train.scratch.recipe import Phase, Source
from engine.train.scratch.screening import Screen, is_held_out

LENGTH = 32


def documents(sizes: list[int], first: int = 0) -> Documents:
    """Document i holds its number, again and again; every second token is an answer."""
    tokens = [np.full(size, first + number, np.uint16) for number, size in enumerate(sizes)]
    marks = [np.arange(size) % 2 == 1 for size in sizes]
    return Documents(
        np.concatenate(tokens), np.concatenate(marks), np.cumsum(sizes, dtype=np.int64)
    )


@given(
    st.lists(st.integers(2, LENGTH), min_size=12, max_size=60),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=60)
def test_rows_hold_whole_documents_once_a_pass(
    sizes: list[int], rows: int, answers_only: bool
) -> None:
    phase = Phase("all", 1.0, (Source("one", 2.0),), LENGTH, answers_only=answers_only)
    packer = Packer(phase, {"one": documents(sizes)}, rows, seed=3)
    found: Counter[int] = Counter()
    whole = sum(sizes) * 2 // LENGTH // rows // 2  # batches of less than one pass
    for batch in islice(packer.batches(), whole):
        assert batch.tokens.shape == (rows, LENGTH)
        for tokens, learned, numbers in zip(
            batch.tokens, batch.learned, batch.document, strict=True
        ):
            for number in set(numbers[numbers >= 0]):
                inside = numbers == number
                (value,) = set(tokens[inside])
                assert inside.sum() == sizes[value]
                places = np.flatnonzero(inside)
                assert np.array_equal(places, np.arange(places[0], places[0] + len(places)))
                expected = np.arange(len(places)) % 2 == 1 if answers_only else np.ones(len(places))
                expected[0] = False
                assert np.array_equal(learned[inside], expected.astype(bool))
                found[value] += 1
            assert not learned[numbers < 0].any()
    assert all(count <= 2 for count in found.values())


def test_any_batch_can_be_gone_on_from() -> None:
    sizes = [2 + number % 29 for number in range(80)]
    phase = Phase("all", 1.0, (Source("one"), Source("two", 0.5)), LENGTH, joined=0.5)
    learned = {"one": documents(sizes), "two": documents(sizes, 100)}
    whole = list(islice(Packer(phase, learned, 2, seed=1).batches(), 40))
    later = list(islice(Packer(phase, learned, 2, seed=1).batches(25), 15))
    for one, other in zip(whole[25:], later, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert np.array_equal(one.document, other.document)


def test_what_does_not_fit_is_left_out() -> None:
    sizes = [LENGTH + 1, 5, LENGTH, 2 * LENGTH, 9] * 8
    phase = Phase("all", 1.0, (Source("one"),), LENGTH)
    packer = Packer(phase, {"one": documents(sizes)}, 2, seed=0)
    found = {
        int(value)
        for batch in islice(packer.batches(), 12)
        for value in batch.tokens[batch.document >= 0]
    }
    assert {sizes[number] for number in found} == {5, 9, LENGTH}


def test_joined_documents_are_one_conversation() -> None:
    ids = [np.array([1, *range(10 * n, 10 * n + 4)], np.uint16) for n in (1, 2, 3)]
    row = [(one, np.array([False, False, True, True, True])) for one in ids]
    batch = filled([row], 16, answers_only=True, joined=[[False, True, False]])
    assert batch.tokens[0].tolist() == [
        1, 10, 11, 12, 13, 20, 21, 22, 23, 1, 30, 31, 32, 33, 0, 0
    ]  # fmt: skip
    assert batch.document[0].tolist() == [1] * 9 + [2] * 5 + [-1] * 2
    assert np.flatnonzero(batch.learned[0]).tolist() == [2, 3, 4, 6, 7, 8, 11, 12, 13]
    assert batch.count == 14


@pytest.mark.parametrize("joined", [0.0, 0.4, 1.0])
def test_as_many_are_joined_as_the_phase_says(joined: float) -> None:
    sizes = [3 + number % 7 for number in range(400)]
    phase = Phase("all", 1.0, (Source("one"),), LENGTH, joined=joined)
    batches = list(islice(Packer(phase, {"one": documents(sizes)}, 4, seed=2).batches(), 15))
    own, both = 0, 0
    for batch in batches:
        for tokens, numbers in zip(batch.tokens, batch.document, strict=True):
            inside = numbers >= 0
            talks = len(set(numbers[inside]))
            documents_in_row = len(set(tokens[inside]))
            own += talks - 1
            both += documents_in_row - 1
    assert abs((1 - own / both) - joined) < 0.15
    assert joined not in {0.0, 1.0} or 1 - own / both == joined


def test_what_is_held_out_comes_once() -> None:
    sizes = [5, 20, 32, 7, 30]
    batches = in_rows(documents(sizes), 2, LENGTH, most=10_000)
    found = np.concatenate([batch.tokens[batch.document >= 0] for batch in batches])
    assert Counter(found.tolist()) == Counter(dict(enumerate(sizes)))


def said(*texts: str) -> Example:
    roles = (Role.USER, Role.ASSISTANT)
    return Example(tuple(Message(roles[at % 2], text) for at, text in enumerate(texts)))


def test_the_benchmarks_are_not_learned_from() -> None:
    asked = "Write a function that takes a list of numbers and returns its sorted unique elements."
    screen = Screen([asked, "Who wrote Hamlet?"])
    assert not screen.passes(said(f"Please help. {asked.upper()}", "Here it is."))
    assert not screen.passes(said("who wrote hamlet", "Shakespeare."))
    assert not screen.passes(Example(text=f"He said: {asked}"))
    assert screen.passes(said("Who wrote Hamlet and Macbeth?", "Shakespeare."))
    assert screen.passes(said("Write a function that adds two numbers.", "Here it is."))


def test_near_twins_are_held_out_together() -> None:
    questions = [f"What is {number} plus one?" for number in range(3000)]
    out = [text for text in questions if is_held_out(said(text, "A number."))]
    assert 10 < len(out) < 80  # 30 are expected
    for text in out[:5]:
        assert is_held_out(said(text.upper().replace("?", " ?!"), "Another answer."))
