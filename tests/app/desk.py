"""The window under test, and what tests do with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

from app.application import Assembly
from app.chat.messages.message_view import AnswerMessage
from app.chat.page import ChatPage
from app.engine_link.bridge import EngineBridge
from app.engine_link.status import Phase
from app.session.session import ChatSession
from app.shell.banner_stack import BannerStack
from engine.events import Event

PATIENCE_MS = 120_000
"""After so long a test fails instead of waiting on."""


def drain(bridge: EngineBridge) -> None:
    """Hand out all that has come in, in several goes where the machine is busy."""
    while bridge.drain():
        pass


class PatientBot(QtBot):
    """Waits as long as a busy machine may need; a condition that holds is seen as soon as ever."""

    def waitUntil(  # noqa: N802
        self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS
    ) -> None:
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(  # noqa: N802
        self, signal: object, *, timeout: int = PATIENCE_MS, **more: Any
    ) -> SignalBlocker:
        return super().waitSignal(signal, timeout=timeout, **more)

    def waitExposed(self, widget: QWidget, *, timeout: int = PATIENCE_MS) -> None:  # noqa: N802
        """Wait at once, where pytest-qt's own needs a `with`."""
        with super().waitExposed(widget, timeout=timeout):
            pass


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
    def banners(self) -> BannerStack:
        return self.assembly.window.banners

    @property
    def session(self) -> ChatSession:
        return self.assembly.session

    def tell(self, *events: Event) -> None:
        """Let the engine say something, and the window take all of it in at once."""
        self.assembly.bridge._events.extend(events)
        drain(self.assembly.bridge)

    def type_and_send(self, text: str) -> None:
        field = self.chat.composer.field
        field.setPlainText(text)
        self.bot.keyClick(field, Qt.Key.Key_Return)

    def answered(self) -> AnswerMessage:
        """Wait for the answer to end, and the window to show it.

        What may not fit into the context is counted before it is sent.
        """
        shown, said, counted = self.chat.transcript, self.session, self.chat.outgoing._held
        self.bot.waitUntil(
            lambda: (
                not counted.isActive()
                and said.live is None
                and shown.row_count == len(said.messages)
            )
        )
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
