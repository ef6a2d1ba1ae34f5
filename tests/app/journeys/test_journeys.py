"""What people come to do, from end to end, on the real engine.

Killing the process in mid-answer is in tests/app/test_kill_window.py, real keys and a real mouse in
test_on_screen.py, scripting in tests/engine/cli.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot
from traveller import Brake, Traveller

from app.history import AnswerState, ChatSetup
from app.theme.theme import Theme
from engine.request import Role

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


LONG_STORIES = (0, 3)
"""Seeds with which the model of `start_slowly` tells more than 300 letters of a dog and a cat."""
WHOLE = 10_000


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


@pytest.fixture
def brake() -> Iterator[Brake]:
    made = Brake()
    yield made
    made.let(WHOLE)


@pytest.fixture
def reader(
    tmp_path: Path, theme: Theme, qtbot: QtBot, brake: Brake, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Traveller]:
    """Somebody whose answers have a middle: they wait there, and are long enough."""
    seeds = iter(LONG_STORIES)
    monkeypatch.setattr("app.session.session.secrets.randbits", lambda _bits: next(seeds))
    result = Traveller(tmp_path, theme, qtbot, engine=brake.engine)
    yield result
    brake.let(WHOLE)
    result.leave()


def test_a_long_answer(reader: Traveller, brake: Brake) -> None:
    """Read up while it streams, copy, stop, write it anew, compare both with the arrows."""
    reader.start_slowly()
    brake.let(160)
    reader.window.resize(700, 420)  # the small model's stories are not that long
    reader.session.set_setup(ChatSetup(temperature=0.9))
    reader.say("Tell me a long story about a dog and a cat.")
    reader.writing(150)
    bar = reader.chat.transcript.verticalScrollBar()
    reader.until(lambda: bar.maximum() > 0)
    reader.chat.transcript.setFocus()
    reader.bot.keyClick(reader.chat.transcript, Qt.Key.Key_Home)
    place = bar.value()
    cursor = reader.answer.text.textCursor()
    cursor.setPosition(0)
    cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor, 40)
    reader.answer.text.setTextCursor(cursor)
    before = len(reader.answer.text.raw_text)
    brake.let(40)
    reader.writing(before + 30)
    assert bar.value() == place, "the view stays where the reader is"
    selected = reader.answer.text.textCursor().selectedText()
    assert len(selected) == 40, "a selection survives the text that follows"
    reader.answer.text.copy()
    assert QGuiApplication.clipboard().text() == selected.replace("\u2029", "\n")
    reader.keys("Esc")
    brake.let(60)
    reader.answered()
    first = reader.answer.text.raw_text
    assert reader.session.messages[-1].state is AnswerState.STOPPED
    reader.keys("Ctrl+R")
    reader.until(lambda: reader.session.live is not None)
    reader.writing(40)
    reader.session.stop()
    brake.let(WHOLE)
    reader.answered()
    second = reader.session.messages[-1]
    assert (second.version, second.versions) == (2, 2)
    assert second.text != first
    reader.session.show_version(second.id, -1)
    assert texts(reader)[-1] == first
    assert reader.answer.text.raw_text == first
    reader.session.show_version(reader.session.messages[-1].id, +1)
    assert texts(reader)[-1] == second.text


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
