from __future__ import annotations

from collections.abc import Callable

from conftest import Desk
from fake_engine import Script

from app.history import AnswerState
from engine.request import Role

OpenDesk = Callable[[Script | None], Desk]


def test_a_message_is_answered_stored_and_titled(desk: Desk) -> None:
    desk.type_and_send("Hello **there**, my friend")
    answer = desk.answered()
    assert answer.text.raw_text == desk.script.answer
    assert "how can I help?" in answer.text.toPlainText()
    assert "**" not in answer.text.toPlainText()
    (conversation,) = desk.assembly.store.conversations()
    assert conversation.title == "Hello there , my friend"
    stored = desk.assembly.store.messages(conversation.id)
    assert [message.role for message in stored] == [Role.USER, Role.ASSISTANT]
    assert stored[1].state is AnswerState.COMPLETE
    assert stored[1].text == desk.script.answer
    assert stored[1].token_ids
    assert desk.chat.composer.field.toPlainText() == ""
