"""What a next request need not compute again, and how soon a stop is obeyed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import perf_counter

import pytest
from engine_session import Session, answer_of, generate, user
from folder_models import FOLDER_TARGET
from stopwatch import least

from engine.commands import DraftChoice, Load, Mode, Stop
from engine.events import (
    Failed,
    Finished,
    FinishReason,
    LoadProgress,
    PlanReady,
    PrefillProgress,
    RoundFinished,
    TextDelta,
    Unloaded,
)
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

LONG = "One two three four five six seven. " * 40


@pytest.fixture(scope="module")
def bundled() -> Iterator[Session]:
    session = Session()
    session.load(FOLDER_TARGET)
    yield session
    session.close()


# -- reuse ---------------------------------------------------------------------------------


def test_the_next_turn_reads_only_what_is_new(bundled: Session) -> None:
    history = [user("Tell me a story about a fox.")]
    first = bundled.ask(*history)
    history += [answer_of(first), user("And then?")]
    second = bundled.ask(*history)
    kept = first.stats.prompt_tokens + first.stats.committed
    assert second.stats.reused_tokens >= kept
    assert second.stats.prompt_tokens - kept < 12


def test_text_alone_gives_the_same_prompt_up_to_spelling(bundled: Session) -> None:
    """Ids are kept because a text need not be spelled with the tokens the model chose."""
    question = user("Tell me a story about a bird.")
    first = bundled.ask(question)
    text_only = Message(Role.ASSISTANT, first.text)
    again = bundled.ask(question, text_only, user("And then?"))
    assert again.stats.reused_tokens >= first.stats.prompt_tokens


def test_ids_of_another_model_are_not_believed(bundled: Session) -> None:
    question, thanks = user("Tell me a story about a hen."), user("Thanks")
    honest = bundled.ask(question, Message(Role.ASSISTANT, "It sat."), thanks)
    foreign = Message(Role.ASSISTANT, "It sat.", (4095, 151_000, 7))
    lied_to = bundled.ask(question, foreign, thanks)
    assert lied_to.reason is FinishReason.STOP
    assert lied_to.token_ids == honest.token_ids


def test_two_conversations_take_turns(bundled: Session) -> None:
    histories = {
        "cat": [user("Tell me a story about a cat.")],
        "sun": [user("What is the sun?")],
    }
    for turn in range(3):
        for name, history in histories.items():
            finished = bundled.ask(*history, id=name)
            if turn:
                assert finished.stats.prompt_tokens - finished.stats.reused_tokens < 12
            history += [answer_of(finished), user("And then?")]


def test_an_edit_keeps_what_is_before_it(bundled: Session) -> None:
    opening = "Tell me a story about a small horse who lived near the sea"
    first = bundled.ask(opening + ".", max_tokens=10)
    edited = bundled.ask(opening + " and a dog.", max_tokens=10)
    assert 0 < first.stats.prompt_tokens - edited.stats.reused_tokens < 8


def test_the_same_question_again_reads_one_token(bundled: Session) -> None:
    first = bundled.ask("What is rain?", max_tokens=6)
    again = bundled.ask("What is rain?", max_tokens=6)
    assert again.stats.reused_tokens == first.stats.prompt_tokens - 1
    assert again.token_ids == first.token_ids
    told = [event for event in bundled.of(PrefillProgress) if event.at > first.at]
    assert [(event.done, event.reused) for event in told] == [(again.stats.reused_tokens,) * 2]


# -- stop ----------------------------------------------------------------------------------


def test_stop_in_the_prefill_keeps_what_was_read(session: Session, chat_model: Path) -> None:
    session.load(chat_model)
    with session.holding(PrefillProgress, lambda event: event.done > 0) as hold:
        session.submit(generate(LONG))
        hold.reached()
        session.submit(Stop("a"))
    finished = session.wait(Finished)
    done = session.of(PrefillProgress)[-1].done
    assert (finished.reason, finished.text, finished.token_ids) == (FinishReason.STOPPED, "", ())
    assert finished.stats.ttft_s is None
    assert 0 < done < finished.stats.prompt_tokens - 1
    assert not session.of(RoundFinished)
    again = session.ask(LONG, id="b", max_tokens=2)
    assert again.stats.reused_tokens == done
    assert again.reason is FinishReason.LENGTH


def test_stop_in_a_draft_verifies_nothing_more(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.load(FOLDER_TARGET, mode=Mode.CPU)
    proposed = StandaloneDrafter.propose
    proposals = []

    def stopped_while_drafting(self: StandaloneDrafter, *arguments: object) -> object:
        proposals.append(1)
        if len(proposals) == 3:
            session.submit(Stop("a"))
        return proposed(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StandaloneDrafter, "propose", stopped_while_drafting)
    finished = session.ask("Tell me a story about a fox.")
    assert finished.reason is FinishReason.STOPPED
    assert len(proposals) == 3
    assert sum(done.draft is not None for done in session.of(RoundFinished)) == 2


def test_stop_in_a_verification_ends_after_it(bundled: Session) -> None:
    hold = bundled.write_until("Tell me a story about a fox.", id="stopped")
    bundled.submit(Stop("stopped"))
    hold.release()
    finished = bundled.wait(Finished, lambda event: event.request_id == "stopped")
    assert finished.reason is FinishReason.STOPPED
    assert len(bundled.of(RoundFinished, "stopped")) == 1  # the one whose text was being told
    assert len(bundled.of(TextDelta, "stopped")) == 1


def test_stop_while_weights_are_read(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, lambda event: event.fraction > 0) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Stop())
    session.wait(Unloaded)
    assert sum(event.fraction > 0 for event in session.of(LoadProgress)) == 1


@pytest.mark.release(reason="a stopwatch")
def test_stop_takes_a_moment_on_the_real_model(bundled: Session) -> None:
    names = (f"long-{number}" for number in count())

    def stopping() -> float:
        name = next(names)
        hold = bundled.write_until(LONG, id=name)
        bundled.submit(Stop())
        released_at = perf_counter()
        hold.release()
        finished = bundled.wait(Finished, lambda event: event.request_id == name)
        assert finished.reason is FinishReason.STOPPED
        return finished.at - released_at

    assert least(stopping, 0.3) < 0.3  # what a person calls at once


# -- answers without an end ------------------------------------------------------------------


@pytest.fixture
def parrot(session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A model that says one word for ever, which lookup drafts to the last token."""
    word = Tokenizer.open(chat_model).encode_text(" dog")[-1]
    monkeypatch.setattr(Sampler, "native", lambda _self, _vocab: None)
    monkeypatch.setattr(Sampler, "draw", lambda *_arguments, **_more: word)
    session.load(chat_model, mode=Mode.CPU, draft=DraftChoice.LOOKUP, context=300)
    return session


def test_an_answer_that_repeats_itself_is_no_error(parrot: Session) -> None:
    limited = parrot.ask("Hello", id="limited", max_tokens=100)
    assert (limited.reason, limited.stats.committed) == (FinishReason.LENGTH, 100)
    endless = parrot.ask("Hello", id="endless")
    assert endless.reason is FinishReason.CONTEXT
    assert endless.stats.prompt_tokens + endless.stats.committed == 300
    assert endless.text == endless.text[:4] * endless.stats.committed
    assert endless.stats.accepted > 0
    assert not parrot.of(Failed)


@pytest.mark.release(reason="a stopwatch")
def test_an_answer_without_an_end_stops_at_once(parrot: Session) -> None:
    names = (f"long-{number}" for number in count())

    def stopping() -> float:
        name = next(names)
        with parrot.holding(RoundFinished, lambda event: event.index == 9) as hold:
            parrot.submit(generate("Hello", id=name))
            hold.reached()
            parrot.submit(Stop(name))
            released_at = perf_counter()
            hold.release()
        finished = parrot.wait(Finished, lambda event: event.request_id == name)
        assert finished.reason is FinishReason.STOPPED
        assert len(parrot.of(RoundFinished, name)) == 10
        return finished.at - released_at

    assert least(stopping, 0.3) < 0.3


def test_a_stopped_load_can_be_repeated(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, lambda event: event.fraction > 0) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Stop())
    session.wait(Unloaded)
    assert session.load(chat_model).model == chat_model
    assert len(session.of(PlanReady)) == 1
