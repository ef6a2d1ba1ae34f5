"""What an answer was written in is stored when it ends, for each version and each go."""

from __future__ import annotations

import pytest
from desk import Desk

from app.engine_link.background import in_background
from app.history import HistoryStore
from app.history.rounds import RoundRecording, joined, unpack
from app.notices import Notice
from app.session import rounds_keeper
from engine.errors import UserFixable

ANSWER = "one two three four five six seven eight nine ten"


def ask(desk: Desk, question: str, answer: str = ANSWER) -> int:
    desk.script.answer = answer
    desk.type_and_send(question)
    desk.answered()
    return desk.session.messages[-1].id


def kept(desk: Desk, message_id: int) -> RoundRecording | None:
    """All goes of an answer, once the last of them is packed."""
    desk.bot.waitUntil(lambda: not desk.session.writer.keeper._waiting)
    found = [unpack(each) for each in desk.assembly.store.answers.rounds(message_id)]
    return joined([each for each in found if each is not None])


def test_every_version_keeps_its_rounds(desk: Desk) -> None:
    first = ask(desk, "Question")
    desk.script.answer = "another answer of six words here"
    desk.session.regenerate(first)
    desk.answered()
    second = desk.session.messages[-1].id
    for message_id, text in ((first, ANSWER), (second, desk.script.answer)):
        found = kept(desk, message_id)
        assert found is not None
        assert found.spans[-1].end == len(text)
        assert sum(found.told) == len(found.spans) == len(text.split())
        assert found.rounds[-1].text_end == len(text)


def test_each_round_keeps_what_it_wrote_itself(desk: Desk) -> None:
    """However many of them come in one frame of the window."""
    found = kept(desk, ask(desk, "Question"))
    assert found is not None
    assert len(found.rounds) > 2
    spans = iter(found.spans)
    for done, count in zip(found.rounds, found.told, strict=True):
        own = [next(spans) for _ in range(count)]
        stretch = (own[0].start, own[-1].end) if own else (done.text_start,) * 2
        assert stretch == (done.text_start, done.text_end)


def test_a_continued_answer_has_the_rounds_of_both_goes(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.script.answer = ANSWER
    desk.type_and_send("Question")
    desk.streaming("one")
    desk.session.stop()
    desk.answered()
    message = desk.session.messages[-1]
    begun = kept(desk, message.id)
    assert begun is not None
    desk.script.hold_after = None
    desk.session.continue_answer()
    desk.answered()
    whole = kept(desk, message.id)
    assert whole is not None
    assert len(whole.rounds) > len(begun.rounds)
    assert [span.start for span in whole.spans] == sorted(span.start for span in whole.spans)
    assert whole.spans[-1].end == len(ANSWER)


def test_nothing_is_lost_when_the_window_closes_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_keeper, "in_background", lambda *_: None)
    message_id = ask(desk, "Question")
    store, path = desk.assembly.store, desk.assembly.store.path
    assert not store.answers.rounds(message_id)
    desk.assembly.close()
    with HistoryStore.open(path) as again:
        assert len(again.answers.rounds(message_id)) == 1


def test_trouble_with_rounds_disturbs_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, notices: list[Notice]
) -> None:
    def full(*_: object) -> None:
        raise UserFixable("The drive is full.", "Free some space.")

    monkeypatch.setattr(desk.assembly.store.answers, "keep_rounds", full)
    message_id = ask(desk, "Question")
    assert kept(desk, message_id) is None
    assert notices == []


def test_what_cannot_be_packed_is_dropped(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_: RoundRecording) -> bytes:
        raise OverflowError

    monkeypatch.setattr(rounds_keeper, "pack", odd)
    message_id = ask(desk, "Question")
    assert kept(desk, message_id) is None
    assert rounds_keeper.in_background is in_background
