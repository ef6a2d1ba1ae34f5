"""Somebody at a real window on the real engine and the bundled model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from folder_models import FOLDER_TARGET
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.application import Assembly
from app.chat.messages.message_view import AnswerMessage
from app.chat.page import ChatPage
from app.data_folder.paths import Paths
from app.engine_link.bridge import EngineFactory, EngineLike, real_engine
from app.engine_link.status import Phase
from app.history import AnswerState
from app.session.session import ChatSession
from app.settings.presets import PRECISE
from app.shell.banner_stack import BannerStack
from app.theme.theme import Theme
from engine.commands import Load, Mode, WeightFormat
from engine.events import Event, TextDelta
from engine.hub.local import default_target

PATIENCE_MS = 100_000
WHOLE = (AnswerState.COMPLETE, AnswerState.FULL)
"""To the end: the answer's own, or that of the context, which a model may talk its way to."""


class Brake:
    """Holds the real engine in the middle of an answer, however late the window looks at it."""

    def __init__(self) -> None:
        self._most, self._told, self._moved = 0, 0, threading.Condition()

    def engine(self, emit: Callable[[Event], None]) -> EngineLike:
        """The real one, with this brake."""

        def hear(event: Event) -> None:
            emit(event)
            if isinstance(event, TextDelta):
                with self._moved:
                    self._told += len(event.text)
                    self._moved.wait_for(lambda: self._told < self._most, PATIENCE_MS / 1000)

        return real_engine(hear)

    def let(self, characters: int) -> None:
        """Let so many more be written."""
        with self._moved:
            self._most = self._told + characters
            self._moved.notify_all()


class Traveller:
    """Does what people do, and waits for what they would wait for."""

    def __init__(
        self,
        folder: Path,
        theme: Theme,
        bot: QtBot,
        simulate_gpu: int | None = None,
        engine: EngineFactory = real_engine,
        device: str | None = None,
    ) -> None:
        self.bot = bot
        paths = Paths(folder / "data", folder / "config")
        self.assembly = Assembly(paths, theme, engine, simulate_gpu=simulate_gpu, device=device)
        self.assembly.settings.change(default_preset=PRECISE.name)  # same question, same answer
        self.window = self.assembly.window
        self.window.resize(1280, 800)
        self.window.show()
        bot.waitExposed(self.window)

    @property
    def chat(self) -> ChatPage:
        return self.window.chat

    @property
    def banners(self) -> BannerStack:
        return self.window.banners

    @property
    def session(self) -> ChatSession:
        return self.assembly.session

    @property
    def answer(self) -> AnswerMessage:
        """The last answer on show."""
        answer = self.chat.transcript.last_answer()
        assert answer is not None
        return answer

    def start(self) -> None:
        """Wait for the bundled model, as it loads at a first start."""
        self.assembly.start(default_target)
        self.until(lambda: self.assembly.bridge.status.phase is Phase.READY)

    def start_drafting(self) -> None:
        """The bundled pair, drafting whether or not that pays, which `auto` would ask first."""
        load = Load(default_target(), mode=Mode.CPU)
        self.assembly.bridge.start(lambda: load)
        self.until(lambda: self.assembly.bridge.status.phase is Phase.READY)

    def start_slowly(self) -> None:
        """The slow path of a model whose long answers are known: they have a middle."""
        load = Load(FOLDER_TARGET, mode=Mode.PLAIN, weights=WeightFormat.F32)
        self.assembly.bridge.start(lambda: load)
        self.until(lambda: self.assembly.bridge.status.phase is Phase.READY)

    def until(self, holds: Callable[[], object]) -> None:
        self.bot.waitUntil(lambda: bool(holds()), timeout=PATIENCE_MS)

    def say(self, text: str) -> None:
        """Type into the message field and press Enter."""
        field = self.chat.composer.field
        field.setFocus()
        self.bot.keyClicks(field, text)
        self.bot.keyClick(field, Qt.Key.Key_Return)

    def ask(self, text: str) -> AnswerMessage:
        """Say something and wait for the whole answer."""
        self.say(text)
        self.answered()
        return self.answer

    def answered(self) -> None:
        """Wait for the answer to end, and the window to show it."""
        shown, said = self.chat.transcript, self.session
        self.until(lambda: said.live is None and shown.row_count == len(said.messages))

    def writing(self, characters: int = 1) -> None:
        """Wait until so much of the answer is on show."""
        self.until(
            lambda: (
                (answer := self.chat.transcript.last_answer()) is not None
                and len(answer.text.raw_text) >= characters
            )
        )

    def keys(self, keys: str) -> None:
        """Press a combination such as "Ctrl+N" where the focus is."""
        target: QWidget = QApplication.focusWidget() or self.window
        QTest.keySequence(target, keys)

    def leave(self) -> None:
        """Close the window and everything behind it."""
        self.assembly.close()
        self.window.close()
        self.window.deleteLater()
