"""Answers that repeat themselves: found at one token whatever the rounds, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from difflib import SequenceMatcher

import pytest
from engine_session import Session, answer_of, user
from folder_models import FOLDER_TARGET
from hypothesis import given
from hypothesis import strategies as st

from engine.commands import Mode
from engine.events import FinishReason
from engine.model.text.tokenizer import Tokenizer
from engine.session import repetition
from engine.session.repetition import LEAST, LONGEST, NGRAM, TIMES, RepetitionDetector

PASSAGES = st.lists(st.integers(0, 30), min_size=1, max_size=LONGEST)
STORY = "Tell me a short story about a dog."


def found(tokens: Sequence[int], probability: float = 0.99) -> int | None:
    return RepetitionDetector().find(tokens, [probability] * len(tokens))


@given(PASSAGES, st.lists(st.integers(31, 99), max_size=50), st.data())
def test_a_loop_is_found_soon_and_at_the_same_token_however_it_comes(
    passage: list[int], before: list[int], data: st.DataObject
) -> None:
    looped = [*before, *passage * (2 * LEAST // len(passage) + TIMES + 3)]
    end = found(looped)
    assert end is not None
    enough = max(LEAST, TIMES * len(passage))
    assert end <= len(before) + 2 * len(passage) + 2 * NGRAM + enough
    detector, at = RepetitionDetector(), 0
    while at < end:  # in rounds of any size
        size = data.draw(st.integers(1, 200))
        here = detector.find(looped[at : at + size])
        assert (here is not None) == (at + size >= end)
        at = at + size if here is None else at + here
    assert at == end


@given(PASSAGES.filter(lambda passage: len(passage) < LEAST), st.integers(1, 60))
def test_something_new_in_every_repetition_is_no_loop(passage: list[int], times: int) -> None:
    rows = [token for row in range(times) for token in (*passage, 1000 + row)]
    assert found(rows) is None


def test_only_what_the_model_is_sure_of_is_a_loop() -> None:
    looped = [1, 2, 3, 4, 5] * LEAST
    assert found(looped, 0.9) is not None
    assert found(looped, 0.5) is None
    assert RepetitionDetector().find(looped) is not None  # nobody has told


def _random_walk() -> str:
    draw = random.Random(1)
    rows = (f"| {n} | {draw.randrange(100)} | 0 | 0 | 0 | ok |" for n in range(300))
    return "\n".join(rows)


_CHORUS = (
    "Row, row, row your boat,\nGently down the stream.\n"
    "Merrily, merrily, merrily, merrily,\nLife is but a dream.\n\n"
)
_VERSES = ["If you see a crocodile,\nDon't forget to scream.\n\n", "Up the creek we go.\n\n"]
_BOX = "\n".join(["+" + "-" * 60 + "+", *["|" + " " * 60 + "|"] * 20, "+" + "-" * 60 + "+"])
REPETITIVE = {
    "counting": ", ".join(map(str, range(1, 1500))),
    "a list of numbers": "\n".join(f"{n}. The number {n} is next." for n in range(1, 300)),
    "a table": "| No. | Value | A | B | C | State |\n|--|--|--|--|--|--|\n" + _random_walk(),
    "a truth table": "\n".join(f"| {' | '.join(f'{n:08b}')} |" for n in range(256)),
    "times tables": "\n".join(f"{a} x {b} = {a * b}" for a in range(1, 21) for b in range(1, 21)),
    "a song": "".join(_CHORUS + _VERSES[n % 2] for n in range(3)) + _CHORUS * 2,
    "na na na": "Na " * 120 + "hey hey hey, goodbye",
    "drawn with characters": f"{_BOX}\n{'/' * 60}\n{_BOX}",
    "a pattern": "\n".join("#." * 8 if row % 2 else ".#" * 8 for row in range(8)),
    "a ruler": "=" * 200 + "\n" + "-" * 200,
    "code": "".join(
        f"    def test_{name}(self):\n        self.assertEqual(self.{name}(), None)\n\n"
        for name in (f"{one}_{two}" for one in "abcdefgh" for two in "ijklmnop")
    ),
    "zeros": "int table[8][8] = {\n" + "    {0, 0, 0, 0, 0, 0, 0, 0},\n" * 8 + "};",
    "JSON": "[" + ", ".join(f'{{"id": {n}, "on": true, "tags": []}}' for n in range(200)) + "]",
    "I must not talk": "I must not talk in class.\n" * 20,
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(FOLDER_TARGET)


@pytest.mark.parametrize("text", REPETITIVE)
def test_texts_that_repeat_themselves_with_reason_go_on(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode_text(REPETITIVE[text])
    assert found(tokens) is None
    assert looking_at_sentences(tokenizer, tokens) is None


_LOOP = [
    "The little dog was very happy to see his friend again.",
    "The little dog was so very happy to see his friend again.",
    "The little dog was very glad to see his friend again.",
]
LOOPS = {
    "equal": " ".join(_LOOP[:1] * 10),
    "but for a word": " ".join(_LOOP * 4),
    "in turns": " ".join([_LOOP[0], "And so they went on to play in the green garden."] * 6),
    "lines": "\n".join(_LOOP[:1] * 30),
}


@pytest.mark.parametrize("text", LOOPS)
def test_sentences_that_say_the_same_again_and_again_are_a_loop(
    tokenizer: Tokenizer, text: str
) -> None:
    """An answer went on for 400 tokens with eight equal sentences and more."""
    tokens = tokenizer.encode_text("Once upon a time there was a dog. " + LOOPS[text])
    end = looking_at_sentences(tokenizer, tokens)
    assert end is not None
    assert end < len(tokens)
    assert found(tokens) is None, "the exact and long repetition comes much later"
    unsure = RepetitionDetector(lambda token: tokenizer.decode((token,)))
    assert unsure.find(tokens, [0.3] * len(tokens)) is None
    detector, at = RepetitionDetector(lambda token: tokenizer.decode((token,))), 0
    while at < end:  # in rounds of three
        here = detector.find(tokens[at : at + 3])
        assert (here is not None) == (at + 3 >= end)
        at = at + 3 if here is None else at + here
    assert at == end


def looking_at_sentences(tokenizer: Tokenizer, tokens: Sequence[int]) -> int | None:
    detector = RepetitionDetector(lambda token: tokenizer.decode((token,)))
    return detector.find(tokens, [0.99] * len(tokens))


def test_an_answer_ends_there_in_every_mode_and_can_go_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tokens that come again count here: the small model does not get into loops."""
    monkeypatch.setattr(repetition, "NGRAM", 1)
    monkeypatch.setattr(repetition, "LEAST", 1)
    monkeypatch.setattr(repetition, "TIMES", 0)
    monkeypatch.setattr(repetition, "SURE", 0.0)
    ended = []
    for mode in (Mode.PLAIN, Mode.CPU):
        session.load(FOLDER_TARGET, mode=mode)
        ended.append(session.ask(STORY, max_tokens=200, stop_repetition=True))
    plain, drafted = ended
    assert plain.reason is drafted.reason is FinishReason.REPETITION
    assert plain.token_ids == drafted.token_ids
    assert plain.text == drafted.text
    whole = session.ask(STORY, max_tokens=200)
    assert whole.reason is not FinishReason.REPETITION
    assert whole.text.startswith(plain.text)
    assert len(whole.text) > len(plain.text)
    rest = session.ask(user(STORY), answer_of(drafted), max_tokens=200)
    assert (plain.text + rest.text).startswith(whole.text[: len(plain.text) + 20])


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_sentences_are_compared_in_order_only_where_they_could_be_alike(
    one: list[int], other: list[int]
) -> None:
    alike = SequenceMatcher(None, one, other, autojunk=False).ratio()
    assert repetition._most_alike(tuple(one), tuple(other)) >= alike
