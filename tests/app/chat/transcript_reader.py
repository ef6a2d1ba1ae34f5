"""A transcript on its own, and messages to show in it."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.messages.message_view import AnswerMessage, Bubble
from app.chat.messages.transcript import Transcript
from app.history import Conversation, StoredMessage
from app.session.live_answer import LiveAnswer
from engine.events import TextDelta
from engine.request import Role


def message(number: int, text: str = "", *, version: int = 1, versions: int = 1) -> StoredMessage:
    """Questions have even numbers, answers odd ones; ids count from 1."""
    role = Role.ASSISTANT if number % 2 else Role.USER
    return StoredMessage(
        number + 1, role, text or words(number), version=version, versions=versions
    )


def words(number: int) -> str:
    """Some paragraphs, more or fewer of them."""
    return "\n\n".join(
        f"Message {number} paragraph {part}: " + "quite *ordinary* words " * (3 + 7 * number % 11)
        for part in range(1 + number % 4)
    )


class Reader:
    """A transcript in a window, with widgets before and after it, and what its reader sees."""

    def __init__(self, bot: QtBot) -> None:
        self.bot = bot
        self.window = QWidget()
        bot.addWidget(self.window)
        layout = QVBoxLayout(self.window)
        layout.setContentsMargins(0, 0, 0, 0)
        self.before, self.after = QPushButton("before"), QPushButton("after")
        self.transcript = Transcript()
        for widget in (self.before, self.transcript, self.after):
            layout.addWidget(widget)
        self.window.resize(700, 640)
        self.window.show()
        bot.waitExposed(self.window)

    def show(self, count: int) -> list[StoredMessage]:
        """Open a conversation of so many messages."""
        messages = [message(number) for number in range(count)]
        self.transcript.show_messages(messages)
        self.settle()
        return messages

    def settle(self) -> None:
        """Wait until nothing is left to lay out."""
        self.bot.waitUntil(lambda: self.transcript.settled)

    def scroll(self, share: float) -> None:
        """Go to some part of the conversation and look at it for a while."""
        bar = self.transcript.verticalScrollBar()
        bar.setValue(int(bar.maximum() * share))
        self.settle()

    def top(self) -> tuple[Bubble, int]:
        """The message at the top of the view, and its place."""
        bubble = self.transcript.bubble_at(self.transcript.visible_range().start)
        return bubble, bubble.y()

    def line_at_top(self) -> tuple[Bubble, int, int]:
        """The text at the top of the view: message, character and place on the screen."""
        view = self.transcript.viewport()
        for y in range(0, view.height(), 4):
            bubble = self.bubble_under(y)
            if bubble is None:
                continue
            inside = bubble.text.mapFrom(view, QPoint(view.width() // 2, y))
            if 0 <= inside.y() < bubble.text.height():
                position = bubble.text.cursorForPosition(QPoint(0, inside.y())).position()
                return bubble, position, self.place_of(bubble, position)
        raise AssertionError("no text in sight")

    def bubble_under(self, y: int) -> Bubble | None:
        view = self.transcript
        inside = [bubble for bubble in view.bubbles if bubble.y() <= y < bubble.geometry().bottom()]
        return inside[0] if inside else None

    def place_of(self, bubble: Bubble, position: int) -> int:
        """Where a character is, from the top of the view."""
        cursor = QTextCursor(bubble.text.document())
        cursor.setPosition(position)
        line = bubble.text.cursorRect(cursor).topLeft()
        return bubble.text.mapTo(self.transcript.viewport(), line).y()

    def begin(self) -> LiveAnswer:
        """The last answer is being written from now on."""
        base = self.last_answer().message
        self.live = LiveAnswer("live", Conversation(1, "", 0.0), base)
        self.transcript.follow(self.live)
        return self.live

    def write(self, text: str) -> None:
        """More of it comes."""
        self.live.take_text(TextDelta(0.0, "live", text, ()))

    def last_answer(self) -> AnswerMessage:
        answer = self.transcript.last_answer()
        assert answer is not None
        return answer
