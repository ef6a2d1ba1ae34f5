"""Thought and speech, wherever the tokens are cut."""

from __future__ import annotations

import pytest

from engine.events import Origin, TextDelta, TokenSpan
from engine.request import ChatRequest, Message, RawPrompt, Role
from engine.server.generation import tokens_in
from engine.server.reasoning import ReasoningParser, Token

ANSWERS = [
    ("Good day", "", "Good day"),
    ("\nGood day\n", "", "\nGood day\n"),
    ("<think>\nHmm.\n</think>\n\nGood day", "Hmm.", "Good day"),
    ("<think>\n\n</think>\n\nGood day", "", "Good day"),
    ("<think>Hmm.\n\nWell.</think>Good day\n", "Hmm.\n\nWell.", "Good day\n"),
    ("<thinking>\nHmm.</thinking>\nGood <b>day</b>", "Hmm.", "Good <b>day</b>"),
    ("<think>\nHmm. ", "Hmm.", ""),
    ("Use `<think>` here", "", "Use `<think>` here"),
    ("1 < 2 <", "", "1 < 2 <"),
]


def tokens_of(text: str, size: int) -> list[Token]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [(piece, TokenSpan(0, 0, 0, Origin.TARGET)) for piece in pieces]


def split(text: str, size: int, request: ChatRequest) -> tuple[str, str]:
    stream = ReasoningParser(request)
    deltas = [p for token in tokens_of(text, size) for p in stream.feed([token])]
    deltas += stream.finish()
    thought = "".join(delta.text for delta in deltas if delta.reasoning)
    return thought, "".join(delta.text for delta in deltas if not delta.reasoning)


def request(*messages: Message, raw: RawPrompt | None = None) -> ChatRequest:
    return ChatRequest("server-x", messages, raw=raw)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(("text", "thought", "said"), ANSWERS)
def test_thought_and_speech_are_told_apart(text: str, thought: str, said: str, size: int) -> None:
    assert split(text, size, request(Message(Role.USER, "Hello"))) == (thought, said)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_an_answer_that_goes_on_may_be_inside_a_thought(size: int) -> None:
    begun = Message(Role.ASSISTANT, "<think>\nHm")
    assert split("m.\n</think>\n\nHi", size, request(begun)) == ("m.", "Hi")
    begun = Message(Role.ASSISTANT, "<think>\nHmm.</think>\nHi")
    assert split(" there", size, request(begun)) == ("", " there")


def test_a_raw_answer_is_all_said() -> None:
    text = ANSWERS[2][0]
    assert split(text, 3, request(raw=RawPrompt("x"))) == ("", text)


def test_tokens_have_their_parts_of_the_text() -> None:
    text = "a😀é"
    spans = [(0, 1), (1, 1), (1, 3), (3, 4)]
    delta = TextDelta(
        0.0, "x", text, tuple(TokenSpan(7, 10 + a, 10 + b, Origin.TARGET) for a, b in spans)
    )
    assert [piece for piece, _ in tokens_in(delta)] == ["a", "", "😀", "é"]
    assert tokens_in(TextDelta(0.0, "r", "", ())) == []
