"""Answers with grammars, asked of an engine: the same text in every mode, thoughts first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from engine_session import Session, answer_of, user
from folder_models import FOLDER_TARGET
from grammars import GRAMMARS

from engine.backend.cpu import native_is_built
from engine.commands import DraftChoice, Generate, Mode
from engine.events import Failed, Finished, FinishReason
from engine.model.text.grammar import GrammarCompiler
from engine.model.text.tokenizer import Tokenizer
from engine.request import ChatRequest, Grammar, GrammarKind, Message, RawPrompt, SamplingParams
from engine.session.constraining import opening

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
QUESTION = "Tell me a story about a fox."
SAMPLED = SamplingParams(temperature=0.9, seed=12, top_k=30, top_p=0.95)


@pytest.fixture(scope="module")
def plain() -> Iterator[Session]:
    session = Session()
    session.load(FOLDER_TARGET, mode=Mode.PLAIN, draft=DraftChoice.NONE)
    yield session
    session.close()


def ask(session: Session, name: str, *begun: Message, **members: Any) -> Finished:
    request = ChatRequest(
        f"{name}-{len(session.events)}",
        (user(QUESTION), *begun),
        **{"grammar": GRAMMARS[name][0], "max_tokens": 80, "sampling": SAMPLED, **members},
    )
    session.submit(Generate(request))
    return session.wait(Finished, lambda event: event.request_id == request.id)


@pytest.mark.parametrize(
    "load",
    [{"mode": Mode.CPU}, {"mode": Mode.CPU, "draft": DraftChoice.LOOKUP}, {"mode": Mode.DUO}],
    ids=["draft", "lookup", "duo"],
)
def test_every_mode_gives_the_same_text(plain: Session, load: dict[str, Any]) -> None:
    session = Session()
    gpu = {"simulate_gpu": GIB} if load["mode"] is Mode.DUO else {}
    session.load(FOLDER_TARGET, **load, **gpu)
    for name, (_, follows) in GRAMMARS.items():
        for sampling in (SamplingParams(), SAMPLED):
            truth, found = (ask(each, name, sampling=sampling) for each in (plain, session))
            assert (found.text, found.reason) == (truth.text, truth.reason)
            if found.reason is FinishReason.STOP:
                assert follows(found.text)
    session.close()


def test_a_begun_answer_goes_on_to_the_same_end(plain: Session) -> None:
    whole = ask(plain, "schema")
    for tokens in (3, 11):
        begun = ask(plain, "schema", max_tokens=tokens)
        assert begun.reason is FinishReason.LENGTH
        rest = ask(plain, "schema", answer_of(begun))
        assert begun.text + rest.text == whole.text


def test_what_was_begun_otherwise_is_refused(plain: Session) -> None:
    begun = Message(answer_of(ask(plain, "regex")).role, "Once upon a time")
    failed = ask(plain, "schema", begun)
    assert failed.reason is FinishReason.ERROR
    told = plain.wait(Failed, lambda event: event.request_id == failed.request_id)
    assert "beginning of the answer" in told.cause


def test_a_bad_grammar_is_told_in_words(plain: Session) -> None:
    failed = ask(plain, "schema", grammar=Grammar(GrammarKind.JSON_SCHEMA, '{"type": 3}'))
    told = plain.wait(Failed, lambda event: event.request_id == failed.request_id)
    assert "The JSON schema cannot be used" in told.cause
    assert ask(plain, "choice").reason is FinishReason.STOP


def test_a_raw_prompt_goes_on_within_the_grammar(plain: Session) -> None:
    request = ChatRequest(
        "raw",
        (),
        raw=RawPrompt("The animals are a"),
        grammar=GRAMMARS["regex"][0],
        max_tokens=40,
    )
    plain.submit(Generate(request))
    done = plain.wait(Finished, lambda event: event.request_id == "raw")
    assert done.reason is FinishReason.STOP
    assert GRAMMARS["regex"][1](done.text)


THINKS = "{{ messages }}<think></think>"


@pytest.mark.parametrize(
    ("begun", "thinking", "text", "fits"),
    [
        ("", None, "<think>\nA cat?\n</think>\n\ncat.", True),
        ("", None, "cat.", True),
        ("", False, "<think>\nA cat?\n</think>\n\ncat.", False),
        ("", False, "cat.", True),
        ("<think>\n", None, "<think>\nA cat?\n</think>\n\ncat.", True),
        ("<think>\n", None, "cat.", False),
        ("", None, "<think>\nA cat?\n</think>\n\nWell, cat.", False),
    ],
)
def test_thoughts_come_before_the_grammar(
    begun: str, thinking: bool | None, text: str, fits: bool
) -> None:
    tokenizer = Tokenizer.open(FOLDER_TARGET)
    request = ChatRequest("a", (user("?"),), thinking=thinking, grammar=GRAMMARS["regex"][0])
    rules = opening(tokenizer, THINKS, request, begun)
    matcher = GrammarCompiler(tokenizer, tokenizer.vocab_size).matcher(
        GRAMMARS["regex"][0], opening=rules
    )
    whole = [*tokenizer.encode_text(text), min(tokenizer.eos_ids)]
    assert (matcher.fitting(whole) == len(whole)) is fits


def test_a_schema_without_members_is_any_json(plain: Session) -> None:
    done = ask(plain, "choice", grammar=Grammar(GrammarKind.JSON_SCHEMA, "{}"), max_tokens=200)
    if done.reason is FinishReason.STOP:
        json.loads(done.text)
