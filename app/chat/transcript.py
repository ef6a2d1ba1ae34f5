"""The scrolling column of messages. It stays where the reader is, and follows only at the end."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.chat.message_view import AnswerMessage, Bubble, UserMessage
from app.history import StoredMessage
from app.theme.icons import IconButton
from app.theme.tokens import COLUMN
from engine.request import Role

_PAGE = 24
"""Messages that are laid out at once; earlier ones follow when the reader scrolls up to them."""
_NEAR = 8
_MARGIN = 24


class Transcript(QScrollArea):
    """Shows the messages of one conversation."""

    continue_asked = Signal()
    regenerate_asked = Signal()
    link_clicked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Conversation")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._page = QWidget(self)
        self._page.setProperty("look", "page")
        self._column = QVBoxLayout(self._page)
        self._column.setContentsMargins(_MARGIN, 28, _MARGIN, 28)
        self._column.setSpacing(26)
        self._column.addStretch(1)
        self.setWidget(self._page)
        self._earlier: list[StoredMessage] = []
        self._bubbles: list[Bubble] = []
        self._following = True
        self._from_bottom: int | None = None
        bar = self.verticalScrollBar()
        bar.rangeChanged.connect(self._range_changed)
        bar.valueChanged.connect(self._scrolled)
        bar.actionTriggered.connect(lambda _: QTimer.singleShot(0, self, self._decide))
        self._to_end = IconButton("down", "Jump to the end", self, shortcut="Ctrl+End")
        self._to_end.setProperty("look", "floating")
        self._to_end.setFixedSize(QSize(36, 36))
        self._to_end.clicked.connect(self.jump_to_end)
        self._to_end.hide()

    @property
    def following(self) -> bool:
        """Whether the view moves along with new text."""
        return self._following

    @property
    def bubbles(self) -> Sequence[Bubble]:
        """The messages that are laid out, oldest first."""
        return self._bubbles

    def show_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Show a conversation from its end."""
        for bubble in self._bubbles:
            self._column.removeWidget(bubble)
            bubble.hide()
            bubble.deleteLater()
        self._bubbles = []
        self._earlier = list(messages[:-_PAGE])
        for message in messages[-_PAGE:]:
            self._add(message)
        self.jump_to_end()

    def add(self, message: StoredMessage) -> Bubble:
        """Append a message and go to it."""
        bubble = self._add(message)
        self.jump_to_end()
        return bubble

    def drop(self, message_id: int) -> None:
        """Remove a message."""
        for bubble in [each for each in self._bubbles if each.message.id == message_id]:
            self._bubbles.remove(bubble)
            self._column.removeWidget(bubble)
            bubble.hide()
            bubble.deleteLater()
        self._mark_last()

    def last_answer(self) -> AnswerMessage | None:
        """The answer at the end, if there is one."""
        last = self._bubbles[-1] if self._bubbles else None
        return last if isinstance(last, AnswerMessage) else None

    def jump_to_end(self) -> None:
        """Show the newest text, and follow it."""
        self._following = True
        self._to_end.hide()
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the column readable: centred, not too wide."""
        super().resizeEvent(event)
        side = max(_MARGIN, (self.width() - COLUMN) // 2)
        # The scroll bar takes its room from the right margin: the column stays where it is.
        bar = self.width() - self.viewport().width()
        self._column.setContentsMargins(side, 28, side - bar, 28)
        for bubble in self._bubbles:
            bubble.fit(self._width())
        x = (self.width() - self._to_end.width()) // 2
        self._to_end.move(x, self.height() - self._to_end.height() - 12)

    def _width(self) -> int:
        return min(COLUMN, self.width() - 2 * _MARGIN)

    def _add(self, message: StoredMessage) -> Bubble:
        bubble = self._make(message)
        before = self._bubbles[-1].focus_chain[-1] if self._bubbles else self
        self._bubbles.append(bubble)
        self._column.insertWidget(self._column.count() - 1, bubble)
        _chain(before, bubble)
        self._mark_last()
        return bubble

    def _make(self, message: StoredMessage) -> Bubble:
        bubble: Bubble
        if message.role is Role.ASSISTANT:
            bubble = AnswerMessage(message, self._page)
            bubble.continue_asked.connect(self.continue_asked)
            bubble.regenerate_asked.connect(self.regenerate_asked)
        else:
            bubble = UserMessage(message, self._page)
        bubble.text.link_clicked.connect(self.link_clicked)
        bubble.fit(self._width())
        return bubble

    def _mark_last(self) -> None:
        for bubble in self._bubbles[-3:]:
            if isinstance(bubble, AnswerMessage):
                bubble.set_last(last=bubble is self._bubbles[-1])

    def _range_changed(self, _lowest: int, highest: int) -> None:
        bar = self.verticalScrollBar()
        if self._from_bottom is not None:
            bar.setValue(highest - self._from_bottom)
            self._from_bottom = None
        elif self._following:
            bar.setValue(highest)

    def _scrolled(self, value: int) -> None:
        bar = self.verticalScrollBar()
        if value >= bar.maximum() - _NEAR:
            self._following = True
        self._to_end.setVisible(not self._following)
        if value < 200 and self._earlier and not self._following:
            QTimer.singleShot(0, self, self._show_earlier)

    def _decide(self) -> None:
        """After the reader moved the view: follow only from the very end."""
        bar = self.verticalScrollBar()
        self._following = bar.value() >= bar.maximum() - _NEAR
        self._to_end.setVisible(not self._following)

    def _show_earlier(self) -> None:
        """Lay out some more messages above, without moving those in sight."""
        if not self._earlier:
            return
        bar = self.verticalScrollBar()
        page, self._earlier = self._earlier[-_PAGE:], self._earlier[:-_PAGE]
        self._from_bottom = bar.maximum() - bar.value()
        before: QWidget = self
        for index, message in enumerate(page):
            bubble = self._make(message)
            self._bubbles.insert(index, bubble)
            self._column.insertWidget(index, bubble)
            before = _chain(before, bubble)


def _chain(before: QWidget, bubble: Bubble) -> QWidget:
    """Let Tab go from `before` into the message; the last stop in it."""
    for widget in bubble.focus_chain:
        QWidget.setTabOrder(before, widget)
        before = widget
    return before
