"""A real window on a scripted engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

sys.path.insert(0, str(Path(__file__).parent))

from fake_engine import FakeEngine, Script

from app.application import Assembly
from app.chat.message_view import AnswerMessage
from app.chat.page import ChatPage
from app.chat.session import ChatSession
from app.paths import Paths
from app.status import Phase
from app.theme.theme import Theme


@pytest.fixture(scope="session")
def theme(qapp: QApplication) -> Theme:
    return Theme(qapp)


@dataclass
class Desk:
    """The window under test and what is around it."""

    assembly: Assembly
    script: Script
    bot: QtBot

    @property
    def chat(self) -> ChatPage:
        return self.assembly.window.chat

    @property
    def session(self) -> ChatSession:
        return self.assembly.session

    def type_and_send(self, text: str) -> None:
        field = self.chat.composer.field
        field.setPlainText(text)
        from PySide6.QtCore import Qt

        self.bot.keyClick(field, Qt.Key.Key_Return)

    def answered(self) -> AnswerMessage:
        """Wait for the answer to end."""
        self.bot.waitUntil(lambda: self.session.live is None)
        answer = self.chat.transcript.last_answer()
        assert answer is not None
        return answer

    def streaming(self, text: str) -> AnswerMessage:
        """Wait until the live answer shows `text`."""

        def shown() -> bool:
            answer = self.chat.transcript.last_answer()
            return answer is not None and text in answer.text.raw_text

        self.bot.waitUntil(shown)
        answer = self.chat.transcript.last_answer()
        assert answer is not None
        return answer

    def ready(self) -> None:
        self.bot.waitUntil(lambda: self.assembly.bridge.status.phase is Phase.READY)


@pytest.fixture
def open_desk(
    theme: Theme, qtbot: QtBot, tmp_path: Path
) -> Iterator[Callable[[Script | None], Desk]]:
    """Opens windows on one data folder, one after the other or the last one again."""
    open_now: list[Assembly] = []

    def make(script: Script | None = None) -> Desk:
        script = script or Script()
        assembly = Assembly(
            Paths(tmp_path / "data", tmp_path / "config"),
            theme,
            lambda emit: FakeEngine(emit, script),
        )
        open_now.append(assembly)
        assembly.window.show()
        qtbot.waitExposed(assembly.window)
        assembly.start(lambda: Path("model"))
        return Desk(assembly, script, qtbot)

    yield make
    for assembly in open_now:
        assembly.close()
        assembly.window.close()
        assembly.window.deleteLater()


@pytest.fixture
def desk(open_desk: Callable[[Script | None], Desk]) -> Desk:
    """A window with a model ready."""
    result = open_desk(None)
    result.ready()
    return result
