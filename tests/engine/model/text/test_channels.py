"""Answers in channels (gpt-oss): thoughts as a think block, the rest as text, ids exact."""

from __future__ import annotations

import functools
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from template_families import BY_NAME

from engine.events import Origin
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.text_stream import TextStream
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role

THOUGHT = "<|channel|>analysis<|message|>They want 日本.<|end|>"
SAID = "<|start|>assistant<|channel|>final<|message|>hello 🦙!"
CALL = "<|start|>assistant<|channel|>commentary to=functions.f <|message|>{}<|end|>"
SHOWN = "<think>\nThey want 日本.\n</think>\n\nhello 🦙!"


@functools.cache
def opened() -> tuple[ChatTemplate, Tokenizer]:
    return BY_NAME["gpt-oss"].open()


def ids_of(text: str) -> list[int]:
    return opened()[1].encode_rendered(text)


def streamed(ids: list[int]) -> str:
    stream = TextStream(opened()[1])
    text = "".join(stream.push(token, Origin.TARGET).text for token in ids)
    return text + stream.finish().text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (THOUGHT + SAID, SHOWN),
        (SAID, "hello 🦙!"),
        ("<|channel|>final<|message|>hello", "hello"),
        ("just text", "just text"),
        (THOUGHT, "<think>\nThey want 日本.\n</think>\n\n"),
        (THOUGHT + THOUGHT + SAID, SHOWN.removesuffix("hello 🦙!") + SHOWN),
        (CALL, CALL),
        (THOUGHT + CALL + SAID, SHOWN.removesuffix("hello 🦙!") + CALL + "hello 🦙!"),
        ("<|channel|>future<|message|>x<|end|>", "<|channel|>future<|message|>x<|end|>"),
        (" to=f<|channel|>analysis<|message|>x", " to=f<think>\nx"),
        # The end of a thought left out, a header that breaks off, and one that never ends.
        (
            "<|channel|>analysis<|message|>x<|channel|>final<|message|>y",
            "<think>\nx\n</think>\n\ny",
        ),
        ("<|channel|>analysis<|end|>x", "<|channel|>analysis<|end|>x"),
        ("<|start|>assistant", "<|start|>assistant"),
        ("<|channel|>" + "a " * 300, "<|channel|>" + "a " * 300),
        ("<|start|><|channel|>analysis<|message|>x", "<|start|><|channel|>analysis<|message|>x"),
        ("<|start|>user<|message|>x<|end|>", "<|start|>user<|message|>x<|end|>"),
    ],
)
def test_what_shows(written: str, shown: str) -> None:
    assert opened()[1].decode(ids_of(written)) == shown
    assert streamed(ids_of(written)) == shown


def marks_and_text() -> st.SearchStrategy[list[int]]:
    tokenizer = opened()[1]
    marks = st.sampled_from(["<|start|>", "<|channel|>", "<|message|>", "<|end|>"])
    pieces = st.one_of(
        marks.map(ids_of),
        st.sampled_from(["assistant", "analysis", "final", "x", "🦙", "日"]).map(ids_of),
        st.sampled_from([THOUGHT, SAID, CALL]).map(ids_of),
        st.integers(0, tokenizer.vocab_size - 1).map(lambda index: [index]),
    )
    return st.lists(pieces, max_size=12).map(lambda found: list(chain.from_iterable(found)))


@given(ids=marks_and_text())
def test_a_stream_shows_what_decoding_shows(ids: list[int]) -> None:
    tokenizer = opened()[1]
    assert streamed(ids) == tokenizer.decode(ids)
    together = TextStream(tokenizer)
    text = "".join(together.push_all(ids[at : at + 3], 1).text for at in range(0, len(ids), 3))
    assert text + together.finish().text == tokenizer.decode(ids)


@given(ids=marks_and_text())
def test_nothing_is_swallowed(ids: list[int]) -> None:
    """Only marks and the names of the two known channels show as something else."""
    tokenizer = opened()[1]
    assert tokenizer.decode(ids).count("x") == b"".join(map(tokenizer.token_bytes, ids)).count(b"x")


@given(ids=marks_and_text(), data=st.data())
def test_cut_anywhere_and_resumed(ids: list[int], data: st.DataObject) -> None:
    tokenizer = opened()[1]
    first = TextStream(tokenizer)
    cut = data.draw(st.integers(0, len(ids)))
    shown = "".join(first.push(token, Origin.TARGET).text for token in ids[:cut])
    shown += first.suspend().text
    kept = ids[: first.kept]
    assert shown == tokenizer.decode_both(kept)[1]
    second = TextStream(tokenizer)
    second.resume(kept, shown)
    rest = "".join(second.push(token, Origin.TARGET).text for token in ids[first.kept :])
    assert shown + rest + second.finish().text == tokenizer.decode(ids)


def answer(written: str) -> Message:
    ids = ids_of(written)
    return Message(Role.ASSISTANT, opened()[1].decode(ids), tuple(ids))


def ask(*messages: Message, go_on: bool = False) -> list[int]:
    template, tokenizer = opened()
    return template.prompt(messages, tokenizer, continue_answer=go_on).ids


HELLO, MORE = Message(Role.USER, "hello"), Message(Role.USER, "more")


def test_the_next_question_is_asked_with_what_was_said() -> None:
    """By its own ids, although another split into tokens says the same."""
    tokenizer = opened()[1]
    spelled = [tokenizer.id_of(letter) for letter in "hello"]
    ids = [*ids_of(THOUGHT), *ids_of("<|start|>assistant<|channel|>final<|message|>"), *spelled]
    stored = Message(Role.ASSISTANT, tokenizer.decode(ids), tuple(ids))
    prompt = ask(HELLO, stored, MORE)
    past = [*ids_of("<|start|>assistant<|channel|>final<|message|>"), *spelled, *ids_of("<|end|>")]
    assert _contains(prompt, past)
    assert not _contains(prompt, ids_of("analysis<|message|>They"))
    edited = Message(Role.ASSISTANT, tokenizer.decode(ids))
    assert _contains(ask(HELLO, edited, MORE), ids_of("final<|message|>hello<|end|>"))
    thinking = answer("<|channel|>analysis<|message|>They")
    assert _contains(ask(HELLO, thinking, MORE), ids_of("final<|message|><|end|>"))


def _contains(ids: list[int], part: list[int | None]) -> bool:
    return any(ids[at : at + len(part)] == part for at in range(len(ids)))


@pytest.mark.parametrize("cut", [1, 2, 3, 6, 20, 30, 38, 45])
def test_an_answer_goes_on_with_its_own_ids(cut: int) -> None:
    tokenizer = opened()[1]
    ids = ids_of(THOUGHT + SAID)[:cut]
    stored = Message(Role.ASSISTANT, tokenizer.decode_both(ids)[1], tuple(ids))
    assert ask(HELLO, stored, go_on=True) == [*ask(HELLO), *ids]


@pytest.mark.parametrize("shown", [SHOWN, "hello", "<think>\nhm", "<think>\nhm\n</think>\n\n"])
def test_an_edited_answer_is_put_into_channels(shown: str) -> None:
    tokenizer = opened()[1]
    prompt = ask(HELLO, Message(Role.ASSISTANT, shown), go_on=True)
    begun = prompt[len(ask(HELLO)) :]
    assert tokenizer.decode(begun) == shown
    assert begun[0] == tokenizer.control_tokens["<|channel|>"]


def test_only_the_whole_answer_ends() -> None:
    tokenizer = opened()[1]
    assert tokenizer.control_tokens["<|end|>"] not in tokenizer.eos_ids
    assert tokenizer.control_tokens["<|return|>"] in tokenizer.eos_ids
    phi = BY_NAME["phi-4-mini"].open()[1]
    assert phi.channels is None
    assert phi.control_tokens["<|end|>"] in phi.eos_ids
