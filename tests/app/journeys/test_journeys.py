"""What people come to do, from end to end, on the real engine.

Killing the process in mid-answer is in tests/app/test_kill_window.py, real keys and a real mouse in
test_on_screen.py, scripting in tests/engine/cli.
"""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QLabel
from traveller import Traveller

from app.history import AnswerState, ChatSetup
from engine.commands import DraftChoice
from engine.request import Role

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def texts(traveller: Traveller) -> list[str]:
    return [message.text for message in traveller.session.messages]


def test_first_start(traveller: Traveller) -> None:
    """The window is up before the engine; hardware in one line; type, Enter, an answer."""
    assert traveller.window.isVisible()
    traveller.start()
    said = " ".join(label.text() for label in traveller.chat.greeting.findChildren(QLabel))
    assert "Found here: " in said
    assert "CPU core" in said
    answer = traveller.ask("Hello")
    assert answer.text.raw_text.strip()
    assert answer.message.state is AnswerState.COMPLETE
    assert traveller.session.current is not None
    assert traveller.session.current.title


def test_a_long_answer(traveller: Traveller) -> None:
    """Read up while it streams, copy, stop, write it anew, compare both with the arrows."""
    traveller.start_slowly()
    traveller.window.resize(700, 420)  # the small model's stories are not that long
    traveller.session.set_setup(ChatSetup(temperature=0.9))
    traveller.say("Tell me a long story about a dog and a cat.")
    traveller.writing(150)
    bar = traveller.chat.transcript.verticalScrollBar()
    traveller.until(lambda: bar.maximum() > 0)
    traveller.chat.transcript.setFocus()
    traveller.bot.keyClick(traveller.chat.transcript, Qt.Key.Key_Home)
    place = bar.value()
    cursor = traveller.answer.text.textCursor()
    cursor.setPosition(0)
    cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor, 40)
    traveller.answer.text.setTextCursor(cursor)
    before = len(traveller.answer.text.raw_text)
    traveller.writing(before + 30)
    assert bar.value() == place, "the view stays where the reader is"
    selected = traveller.answer.text.textCursor().selectedText()
    assert len(selected) == 40, "a selection survives the text that follows"
    traveller.answer.text.copy()
    assert QGuiApplication.clipboard().text() == selected.replace("\u2029", "\n")
    traveller.keys("Esc")
    traveller.answered()
    first = traveller.answer.text.raw_text
    assert traveller.session.messages[-1].state is AnswerState.STOPPED
    traveller.keys("Ctrl+R")
    traveller.until(lambda: traveller.session.live is not None)
    traveller.writing(40)
    traveller.session.stop()
    traveller.answered()
    second = traveller.session.messages[-1]
    assert (second.version, second.versions) == (2, 2)
    assert second.text != first
    traveller.session.show_version(second.id, -1)
    assert texts(traveller)[-1] == first
    assert traveller.answer.text.raw_text == first
    traveller.session.show_version(traveller.session.messages[-1].id, +1)
    assert texts(traveller)[-1] == second.text


def test_second_thoughts(traveller: Traveller) -> None:
    """Edit the first question of a longer chat; the old branch stays; the prefix is reused."""
    traveller.start()
    for question in ("Hello", "Tell me a joke.", "Another one, please."):
        traveller.ask(question)
    old = texts(traveller)
    first = traveller.session.messages[0]
    assert traveller.session.edit(first.id, "Hello, tell me about the sea.")
    traveller.answered()
    assert len(traveller.session.messages) == 2
    edited = traveller.session.messages[0]
    assert (edited.version, edited.versions) == (2, 2)
    stats = traveller.session.messages[1].stats
    assert stats is not None
    assert 0 < stats.reused_tokens < stats.prompt_tokens, "only what changed is read anew"
    traveller.session.show_version(edited.id, -1)
    assert texts(traveller) == old


def test_why_is_it_slow(traveller: Traveller) -> None:
    """Switch the draft off and on: the same text, and the difference in the statistics."""
    traveller.start()
    drafted = traveller.ask("Tell me a short story about a dog.")
    with_draft = drafted.message
    assert with_draft.stats is not None
    assert with_draft.stats.drafted > 0
    traveller.assembly.models.running.draft_with(DraftChoice.NONE)
    plan = traveller.assembly.bridge.status.plan
    traveller.until(
        lambda: (
            traveller.assembly.bridge.status.plan not in (None, plan)
            and not traveller.assembly.bridge.status.busy
        )
    )
    traveller.session.open(None)
    alone = traveller.ask("Tell me a short story about a dog.").message
    assert alone.stats is not None
    assert alone.stats.drafted == 0
    assert alone.text == with_draft.text, "the draft changes the speed, never the text"


def test_keyboard_only(traveller: Traveller) -> None:
    """New chat, search, model, temperature, send, stop, copy code, performance: no mouse."""
    traveller.start()
    traveller.ask("Hello")
    traveller.keys("Ctrl+N")
    assert traveller.session.current is None
    assert traveller.chat.composer.field.hasFocus()
    traveller.ask("Tell me a joke.")
    traveller.keys("Ctrl+K")
    search = traveller.window.sidebar.search
    assert search.hasFocus()
    visible = traveller.window.performance.isVisible()
    traveller.keys("Ctrl+P")
    assert traveller.window.performance.isVisible() is not visible
    traveller.keys("Ctrl+L")
    assert traveller.chat.composer.field.hasFocus()
    stored = traveller.session.messages[-1]
    traveller.keys("Ctrl+Shift+C")
    assert QGuiApplication.clipboard().text() == stored.text
    assert stored.role is Role.ASSISTANT
    settings = json.dumps(traveller.assembly.settings.value.performance_visible)
    assert settings == json.dumps(not visible)
