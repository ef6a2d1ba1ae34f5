"""The starter model itself, where set-up has fetched it: found, read, and exact while drafting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_session import Session

from engine.commands import DraftChoice, Mode
from engine.events import FinishReason
from engine.hub import starter as published
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.request import Message, Role

CAPITAL = "What is the capital of France? Answer in one sentence."
LETTERS = "Repeat this line three times: the red fox met the blue owl at the old oak."


@pytest.fixture(scope="module")
def drafting(starter: Path) -> Iterator[Session]:
    """The real model with a draft that costs nothing, in every round."""
    session = Session()
    session.load(starter, mode=Mode.CPU, draft=DraftChoice.LOOKUP)
    yield session
    session.close()


@pytest.fixture(scope="module")
def plain(starter: Path) -> Iterator[Session]:
    session = Session()
    session.load(starter, mode=Mode.PLAIN)
    yield session
    session.close()


def test_it_is_what_the_sidecar_and_the_pins_say(starter: Path) -> None:
    model = LocalModel.inspect(starter)
    assert isinstance(model.config, ModelConfig)
    assert (model.name, model.kind) == (published.NAME, "Q4_1")
    assert (model.config.vocab_size, model.config.max_positions) == (49_152, 8192)
    assert model.tokenizer().eos_ids >= {2}


def test_it_says_who_it_is_only_where_nobody_says_otherwise(starter: Path) -> None:
    """Its template has a system text of its own."""
    model = LocalModel.inspect(starter)
    template, tokenizer = model.template(), model.tokenizer()

    def rendered(*messages: Message) -> str:
        prompt = template.prompt(messages, tokenizer, continue_answer=False)
        return tokenizer.decode(list(prompt.ids))

    hello = Message(Role.USER, "Hello")
    assert "named SmolLM" in rendered(hello)
    told = rendered(Message(Role.SYSTEM, "You are a parrot."), hello)
    assert "SmolLM" not in told
    assert "<|im_start|>system\nYou are a parrot.<|im_end|>" in told


def test_drafting_changes_no_token(drafting: Session, plain: Session) -> None:
    drafted = drafting.ask(LETTERS, id="drafted", max_tokens=48)
    alone = plain.ask(LETTERS, id="alone", max_tokens=48)
    assert drafted.token_ids == alone.token_ids
    assert drafted.stats.acceptance_length is not None


def test_an_everyday_question_gets_its_answer_and_an_end(plain: Session) -> None:
    told = plain.ask(CAPITAL, id="capital", max_tokens=64)
    assert told.reason is FinishReason.STOP
    assert "Paris" in told.text
