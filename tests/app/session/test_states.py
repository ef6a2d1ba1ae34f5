"""States in which something is missing: nothing good is spoilt, nothing is stranded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from desk import Desk
from fake_engine import Script

from app.chat.examples import BEGINNINGS
from app.engine_link.status import Phase
from app.history import AnswerState
from engine.events import Failed, FinishReason, LoadProgress

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

OpenDesk = Callable[[Script | None], Desk]
NO = Failed(0.0, None, "The GPU is gone.", "Start again.")


def unload(desk: Desk) -> None:
    desk.assembly.models.unload()
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)


def banners(desk: Desk) -> list[str]:
    return desk.banners.texts


def test_going_on_without_a_model_leaves_the_answer_as_it_is(desk: Desk) -> None:
    desk.script.reason = FinishReason.LENGTH
    desk.type_and_send("Hello")
    desk.answered()
    unload(desk)
    before = desk.session.messages[-1]
    desk.session.continue_answer()
    desk.session.regenerate()
    assert desk.session.live is None
    assert desk.session.messages[-1] == before
    assert banners(desk) == ["No model is loaded."]


def test_what_fails_to_go_on_is_not_a_failed_answer(desk: Desk) -> None:
    desk.script.reason = FinishReason.LENGTH
    desk.type_and_send("Hello")
    text = desk.answered().message.text
    desk.script.fail_answer = NO
    desk.session.continue_answer()
    answer = desk.answered().message
    assert (answer.text, answer.state) == (text, AnswerState.STOPPED)


def test_without_a_model_the_line_below_offers_the_models(desk: Desk) -> None:
    button = desk.chat.status_line.model_button
    assert button.isHidden()
    unload(desk)
    assert button.isVisible()
    asked: list[None] = []
    desk.chat.status_line.model_asked.connect(lambda: asked.append(None))
    button.click()
    assert asked == [None]


def test_quitting_while_a_model_loads_is_no_crash(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(None)
    desk.ready()
    assembly = desk.assembly
    assembly._mark.set()
    desk.tell(LoadProgress(1.0, "Reading weights", 0.4))
    closing = assembly.bridge.close
    monkeypatch.setattr(assembly.bridge, "close", lambda: bool(closing()) and False)
    assembly.close()
    assert not assembly.paths.load_mark.exists()


def test_an_example_waits_for_the_answer_of_another_chat(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello!")
    desk.assembly.window.commands.new_chat()
    example = desk.chat.greeting.examples[0]
    example.click()
    assert desk.chat.waiting.isVisible()
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    assert desk.script.requests[-1].messages[-1].text == example.text()


def test_an_error_stays_with_its_answer(desk: Desk) -> None:
    desk.script.fail_answer = NO
    desk.type_and_send("Hello")
    failed = desk.answered()
    assert banners(desk) == ["The GPU is gone."]
    assert "The GPU is gone. Start again." in failed.note
    desk.script.fail_answer = None
    desk.type_and_send("And now?")
    desk.answered()
    assert banners(desk) == [], "it is not about this answer"
    desk.session.open(desk.session.current)
    assert desk.session.messages[1].failure == "The GPU is gone. Start again."


def test_undo_leaves_when_it_is_undone(desk: Desk) -> None:
    desk.type_and_send("Hello")
    desk.answered()
    desk.session.delete_message(desk.session.messages[0].id)
    assert len(banners(desk)) == 1
    desk.session.undo_deletion()
    assert banners(desk) == []


def test_the_context_card_goes_once_the_message_fits(open_desk: OpenDesk) -> None:
    script = Script()
    script.plan = replace(script.plan, context=40, context_limit=40)
    desk = open_desk(script)
    desk.ready()
    field, card = desk.chat.composer.field, desk.chat.context_card
    field.setPlainText("word " * 60)
    meter = desk.chat.composer.meter
    desk.bot.waitUntil(lambda: meter.fill is not None and meter.fill.used >= 60)
    desk.chat.composer.send()
    assert card.isVisible()
    field.setPlainText("word " * 3)
    desk.bot.waitUntil(lambda: not card.isVisible())


def test_a_model_without_a_template_is_told_to_continue_text(open_desk: OpenDesk) -> None:
    script = Script()
    script.plan = replace(script.plan, continues=True)
    desk = open_desk(script)
    desk.ready()
    greeting = desk.chat.greeting
    desk.bot.waitUntil(lambda: greeting._title.text().endswith("only continues text"))
    assert "no chat template" in greeting._line.text()
    first = greeting.examples[0]
    assert first.text() == BEGINNINGS[0]
    first.click()
    desk.answered()
    assert desk.session.messages[0].text == BEGINNINGS[0]
