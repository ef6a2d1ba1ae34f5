"""Answers that give way: behind the others, stopped by them, and continued to the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_session import Session, answer_of, generate, user

from engine.commands import Command, Generate, Load, Stop
from engine.events import Failed, Finished, FinishReason, LoadProgress, TextDelta
from engine.service.agenda import Agenda


def patient(question: str, id: str, max_tokens: int = 30) -> Generate:  # noqa: A002
    return Generate(generate(question, id=id, max_tokens=max_tokens).request, gives_way=True)


def test_answers_that_give_way_wait_behind_the_others() -> None:
    agenda = Agenda()
    works = [patient("a", "1"), generate("b", id="2"), patient("c", "3"), generate("d", id="4")]
    for work in works:
        agenda.add(work)
    order = []
    while agenda:
        work = agenda.next()
        assert isinstance(work, Generate)
        order.append(work.request.id)
    assert order == ["2", "4", "1", "3"]


@pytest.fixture
def ready(session: Session, chat_model: Path) -> Session:
    session.load(chat_model)
    session.events.clear()
    return session


def finished(session: Session, id: str) -> Finished:  # noqa: A002
    return session.wait(Finished, lambda event: event.request_id == id)


def start(session: Session, first: Generate, *then: Command) -> None:
    """Hold the engine at the first word of an answer, and submit more."""
    with session.holding(TextDelta, lambda event: event.request_id == "a") as hold:
        session.submit(first)
        hold.reached()
        session.submit(*then)


def test_it_makes_room_and_goes_on(ready: Session) -> None:
    whole = ready.ask("Hello", id="whole", max_tokens=30)
    start(ready, patient("Hello", "a"), generate("Hi", id="b", max_tokens=2))
    first = finished(ready, "a")
    assert first.reason is FinishReason.YIELDED
    assert 0 < first.stats.committed < 30
    assert finished(ready, "b").reason is FinishReason.LENGTH
    assert first.token_ids is not None
    rest = ready.ask(user("Hello"), answer_of(first), id="c", max_tokens=30 - len(first.token_ids))
    assert first.text + rest.text == whole.text
    assert not ready.of(Failed)


def test_it_does_not_make_room_for_its_like(ready: Session) -> None:
    start(ready, patient("Hello", "a"), patient("Hi", "b", 2))
    assert finished(ready, "a").reason is FinishReason.LENGTH
    assert finished(ready, "b").reason is FinishReason.LENGTH


def test_others_make_no_room(ready: Session) -> None:
    start(ready, generate("Hello", id="a", max_tokens=30), generate("Hi", id="b", max_tokens=2))
    assert finished(ready, "a").reason is FinishReason.LENGTH


@pytest.mark.parametrize("stopped_first", [True, False])
def test_a_stop_is_a_stop(ready: Session, stopped_first: bool) -> None:
    room, stop = generate("Hi", id="b", max_tokens=2), Stop("a")
    start(ready, patient("Hello", "a"), *((stop, room) if stopped_first else (room, stop)))
    assert finished(ready, "a").reason is FinishReason.STOPPED


def test_a_stop_of_everything_leaves_it_where_it_is(ready: Session) -> None:
    waiting, room = patient("Hi", "b", 2), generate("Hi", id="c", max_tokens=2)
    start(ready, patient("Hello", "a"), waiting, room, Stop())
    assert finished(ready, "a").reason is FinishReason.YIELDED
    assert finished(ready, "b").reason is FinishReason.LENGTH
    assert finished(ready, "c").reason is FinishReason.STOPPED


def test_a_stop_of_everything_leaves_one_that_waits_behind_a_load(
    ready: Session, other_chat_model: Path
) -> None:
    with ready.holding(LoadProgress) as hold:
        ready.submit(Load(other_chat_model))
        hold.reached()
        ready.submit(patient("Hello", "a", 2), Stop())
    assert finished(ready, "a").reason is FinishReason.LENGTH
    assert not ready.of(Failed)


def test_another_model_ends_it(ready: Session, other_chat_model: Path) -> None:
    start(ready, patient("Hello", "a"), Load(other_chat_model))
    assert finished(ready, "a").reason is FinishReason.STOPPED
