"""The messages of a conversation, as a column that stays where the reader is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from PySide6.QtCore import QEvent, QObject, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.chat.column import Column
from app.chat.message_view import (
    BUBBLE_EDGE,
    FOOTER,
    GAP,
    AnswerMessage,
    Bubble,
    UserMessage,
)
from app.history import StoredMessage
from app.theme.icons import IconButton
from app.theme.theme import current, ui_font
from engine.request import Role

_SCROLL_KEYS = {
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_Space,
}


class Transcript(Column):
    """Shows the messages of one conversation."""

    continue_asked = Signal()
    regenerate_asked = Signal()
    link_clicked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Conversation")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._messages: list[StoredMessage] = []
        self._to_end = IconButton("down", "Jump to the end", self, shortcut="Ctrl+End")
        self._to_end.setProperty("look", "floating")
        self._to_end.setFixedSize(QSize(36, 36))
        self._to_end.clicked.connect(self.jump_to_end)
        self._to_end.hide()
        self.following_changed.connect(lambda following: self._to_end.setVisible(not following))

    @property
    def bubbles(self) -> Sequence[Bubble]:
        """The messages that are widgets now, oldest first."""
        return [row for _, row in self.live_rows if isinstance(row, UserMessage | AnswerMessage)]

    def show_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Show a conversation from its end."""
        self._messages = list(messages)
        self.reset_rows()

    def replace_from(self, index: int, messages: Sequence[StoredMessage]) -> None:
        """From message `index` on these are the messages now; the view stays where it is."""
        old, self._messages = self._messages, list(messages)
        while index < min(len(old), len(messages)) and old[index] == messages[index]:
            index += 1
        self.replace_rows(index)
        self._mark_last()

    def add(self, message: StoredMessage) -> Bubble:
        """Append a message and go to it."""
        self._messages.append(message)
        self.add_rows()
        self._mark_last()
        self.jump_to_end()
        return self._last_bubble()

    def drop(self, message_id: int) -> None:
        """Remove the last message, if it is this one."""
        if self._messages and self._messages[-1].id == message_id:
            self.replace_from(len(self._messages) - 1, self._messages[:-1])

    def last_answer(self) -> AnswerMessage | None:
        """The answer at the end, if there is one."""
        if not self._messages or self._messages[-1].role is not Role.ASSISTANT:
            return None
        bubble = self._last_bubble()
        return bubble if isinstance(bubble, AnswerMessage) else None

    # -- rows ----------------------------------------------------------------------------------

    def make_row(self, index: int) -> Bubble:
        """The widget of a message."""
        message = self._messages[index]
        bubble: Bubble
        if message.role is Role.ASSISTANT:
            bubble = AnswerMessage(message, self.viewport())
            bubble.set_last(last=index == len(self._messages) - 1)
            bubble.continue_asked.connect(self.continue_asked)
            bubble.regenerate_asked.connect(self.regenerate_asked)
        else:
            bubble = UserMessage(message, self.viewport())
        bubble.text.link_clicked.connect(self.link_clicked)
        bubble.text.installEventFilter(self)
        return bubble

    def estimates(self, first: int, width: int) -> Iterable[int]:
        """Heights by counting characters and lines."""
        metrics = QFontMetricsF(ui_font())
        per_line = max(int(width / metrics.averageCharWidth()), 8)
        line = int(metrics.height() * 1.4)
        user, answer = GAP + 2 * BUBBLE_EDGE, GAP + FOOTER
        return [
            (answer if message.role is Role.ASSISTANT else user)
            + line * (1 + len(message.text) // per_line + message.text.count("\n"))
            for message in self._messages[first:]
        ]

    def paint_missing(self, painter: QPainter, index: int, area: QRect) -> None:
        """Bars in place of lines."""
        tokens = current()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.hover))
        area.setHeight(area.height() - GAP)
        if self._messages[index].role is not Role.ASSISTANT:
            painter.setBrush(QColor(tokens.bubble))
            area.setLeft(area.right() - area.width() // 2)
            painter.drawRoundedRect(area, 14, 14)
            return
        visible = area.intersected(self.viewport().rect())
        first = max(visible.top() - area.top(), 0) // 26
        for number in range(first, first + visible.height() // 26 + 1):
            share = (1.0, 0.94, 0.97, 0.6)[number % 4]
            bar = QRect(area.left(), area.top() + 26 * number + 6, int(area.width() * share), 10)
            if bar.bottom() < area.bottom():
                painter.drawRoundedRect(bar, 5, 5)

    def _last_bubble(self) -> Bubble:
        return cast("Bubble", self.row(len(self._messages) - 1))

    def _mark_last(self) -> None:
        for index, row in self.live_rows[-3:]:
            if isinstance(row, AnswerMessage):
                row.set_last(last=index == len(self._messages) - 1)

    # -- events --------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The button floats above the end."""
        super().resizeEvent(event)
        x = (self.width() - self._to_end.width()) // 2
        self._to_end.move(x, self.height() - self._to_end.height() - 12)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Texts write themselves anew when the font changes."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.PaletteChange):
            self.reflow()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keys that scroll do so wherever in the conversation the focus is."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            shift = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            if event.key() in _SCROLL_KEYS and not shift:
                self.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Home and End lead to the ends of the conversation."""
        bar = self.verticalScrollBar()
        actions = {
            Qt.Key.Key_Home: bar.SliderAction.SliderToMinimum,
            Qt.Key.Key_End: bar.SliderAction.SliderToMaximum,
            Qt.Key.Key_Space: bar.SliderAction.SliderPageStepAdd,
        }
        action = actions.get(Qt.Key(event.key()))
        if action is None:
            super().keyPressEvent(event)
        else:
            bar.triggerAction(action)
