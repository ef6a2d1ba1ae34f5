"""The base of the transcript's rows: a text, the line below it, a menu, the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QEnterEvent,
    QGuiApplication,
    QKeyEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QWidget

from app.chat.messages.divider import Divider
from app.chat.messages.message_actions import Act, MenuTarget, MessageRequests, message_menu
from app.chat.messages.message_footer import Footer
from app.chat.text.selection import selected_text
from app.history import StoredMessage
from engine.model.text.thinking import parts

BELOW = 4
"""Space between the parts of a message."""
GAP = 14
"""Space below a message and its footer."""


@dataclass(frozen=True, slots=True)
class TextAnchor:
    """A place in a row's text that survives another width or font: `below` pixels under the top of
    the line with the character `position`."""

    position: int
    below: int


class MessageRow(QWidget):
    """A message in the column. It can be laid out in slices, and arranges its parts by hand:
    layouts are slow where many rows pass.

    Args:
        message: the message.
        requests: told what the user asks of it.
        name: the name for screen readers.
        parent: the column's viewport.
    """

    growing = Signal(int)
    """The row is about to need so many pixels more at its end."""
    grown = Signal()
    """The height it needs may have changed."""

    def __init__(
        self, message: StoredMessage, requests: MessageRequests, name: str, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.requests = requests
        self.setAttribute(Qt.WidgetAttribute.WA_StaticContents)
        self.message = message
        from app.chat.text.text_view import TextView  # not for an empty chat: see `warm_up`

        self.text = TextView(name, self.text_parent())
        by_keyboard = Qt.TextInteractionFlag.TextSelectableByKeyboard
        self.text.setTextInteractionFlags(self.text.textInteractionFlags() | by_keyboard)
        self.text.setCursorWidth(0)
        self.text.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.text.customContextMenuRequested.connect(self._open_text_menu)
        self.text.growing.connect(self.growing)
        self.text.resized.connect(self.grown)
        self._focused = False
        self._hovered = False
        self._is_last = False
        self.footer = Footer(self)
        self.footer.chosen.connect(self.act)
        self.divider: Divider | None = None
        """The line that parts this message from those below it."""

    def show_divider(self, words: str) -> None:
        """Draw a line below this message, with words in it; none: no line."""
        if words == ("" if self.divider is None else self.divider.words):
            return
        if self.divider is not None:
            self.divider.hide()
            self.divider.deleteLater()
        self.divider = Divider(words, self) if words else None
        if self.divider is not None:
            self.divider.show()
        self.grown.emit()

    def above_divider(self, width: int, height: int) -> int:
        """The height of the row, whose own parts end at `height`."""
        if self.divider is None:
            return height
        self.divider.setGeometry(0, height, width, self.divider.needed)
        return height + self.divider.needed + GAP

    def text_parent(self) -> QWidget:
        """Return the parent of the text."""
        return self

    # -- the row in its column -----------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True if its widget must stay, however far away the reader is."""
        return self._focused or self.text.textCursor().hasSelection()

    def arrange(self, width: int) -> int:
        """Place the parts in a row of `width`; the height it needs."""
        raise NotImplementedError

    @property
    def focus_chain(self) -> list[QWidget]:
        """Return the widgets that Tab goes through; copy buttons of code follow the text."""
        return [self.text, *self.footer.stops]

    def load(self, until: float) -> bool:
        """Lay out more of the text, until about the time `until`; whether all of it is there."""
        whole = self.text.work(until)
        cursor = self.text.textCursor()
        if whole and not self._focused and not cursor.hasSelection() and cursor.position():
            cursor.setPosition(0)  # keys select from the beginning; writing has moved it along
            self.text.setTextCursor(cursor)
        return whole

    @property
    def whole(self) -> bool:
        """True if all of it is laid out: it may begin anew when fonts or colours change."""
        return self.text.laid_out

    def mark_at(self, y: int) -> TextAnchor | None:
        """The line of text at the height `y` of the row, or the first one below; None: no more."""
        inside = y - self.text_top
        if inside >= self.text.height() or self.text.isHidden():
            return None
        cursor = self.text.cursorForPosition(QPoint(0, inside))
        mark = TextAnchor(cursor.position(), 0)
        return TextAnchor(mark.position, y - self.mark_y(mark))

    def mark_y(self, mark: TextAnchor) -> int:
        """Return where the line with the marked character is now."""
        document = self.text.document()
        cursor = QTextCursor(document)
        cursor.setPosition(min(mark.position, document.characterCount() - 1))
        return self.text_top + self.text.cursorRect(cursor).top()

    @property
    def text_top(self) -> int:
        """Return where the text begins in the row."""
        return self.text.mapTo(self, QPoint(0, 0)).y()

    def highlight(self, words: Sequence[str]) -> None:
        """Mark words wherever they are in the message; none: take the marks away."""
        self.text.highlight_words(words)

    def unfolded_y(self, start: int, end: int) -> int | None:
        """Mark a stretch of the message's source, and unfold it; where it is in the row."""
        self.text.mark_source(start, end)
        rect = self.text.unfolded_rect(start, end)
        return None if rect is None else self.text_top + int(rect.top())

    def clear_mark(self) -> None:
        """Take the mark of a stretch away."""
        self.text.clear_mark()

    def set_last(self, *, last: bool) -> None:
        """The last message shows what can be done with it all the time."""
        if last is not self._is_last:
            self._is_last = last
            self.update_parts()

    def set_focused(self, *, focused: bool) -> None:
        """The keyboard is in this message, or has left it."""
        self._focused = focused
        self._reveal()

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        """The mouse brings up the actions."""
        super().enterEvent(event)
        self._hovered = True
        self._reveal()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Hide the actions."""
        super().leaveEvent(event)
        self._hovered = False
        self._reveal()

    def update_parts(self) -> None:
        """Show what the message is now."""
        self._reveal()
        self.grown.emit()

    @property
    def always_shown(self) -> bool:
        """True if the actions are there without mouse or keyboard."""
        return False

    def _reveal(self) -> None:
        self.footer.reveal(shown=self._hovered or self._focused or self.always_shown)

    # -- what can be done ----------------------------------------------------------------------

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        raise NotImplementedError

    def versions(self) -> list[Act]:
        """The versions that there are beside this one."""
        message = self.message
        earlier = [Act.EARLIER] if message.version > 1 else []
        return [*earlier, *([Act.LATER] if message.version < message.versions else [])]

    def act(self, act: Act) -> None:
        """Do one of the actions."""
        message = self.message
        match act:
            case Act.COPY:
                self.copy()
            case Act.PLAIN:
                QGuiApplication.clipboard().setText(self.plain_text())
                self.footer.confirm(Act.COPY)
            case Act.AGAIN | Act.ANSWER:
                self.requests.regenerate.emit(message.id)
            case Act.VARY:
                self.requests.vary.emit(message.id)
            case Act.CONTINUE:
                self.requests.resume.emit()
            case Act.ROUNDS:
                self.requests.show_rounds.emit(message.id)
            case Act.DELETE:
                self.requests.delete.emit(message.id)
            case Act.EARLIER | Act.LATER:
                if act in self.versions():
                    step = -1 if act is Act.EARLIER else 1
                    self.requests.show_version.emit(message.id, step)
            case Act.MORE:
                self.open_menu(self.footer.mapToGlobal(self.footer.below(act)), MenuTarget())
            case _:
                pass

    def copy(self) -> None:
        """Copy the message as it was written, without what was only thought."""
        QGuiApplication.clipboard().setText(parts(self.whole_text())[1])
        self.footer.confirm(Act.COPY)

    def whole_text(self) -> str:
        """Return all of the text, as written."""
        return self.message.text

    def plain_text(self) -> str:
        """The text as it looks, without markdown."""
        self.text.complete()
        cursor = QTextCursor(self.text.document())
        cursor.select(QTextCursor.SelectionType.Document)
        return selected_text(cursor)

    def open_menu(self, corner: QPoint, place: MenuTarget) -> None:
        """Show the menu at a point of the screen."""
        menu = message_menu(self.groups(), place, self.act, self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(corner)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """The menu beside the text is the same."""
        self.open_menu(event.globalPos(), MenuTarget())

    def _open_text_menu(self, point: QPoint) -> None:
        cursor = self.text.textCursor()
        selection = selected_text(cursor) if cursor.hasSelection() else ""
        self.open_menu(
            self.text.mapToGlobal(point), MenuTarget(selection, self.text.anchorAt(point))
        )

    def handle_key(self, event: QKeyEvent) -> bool:
        """Keys that do something with the message the focus is in; whether this was one."""
        steps = {Qt.Key.Key_Left: Act.EARLIER, Qt.Key.Key_Right: Act.LATER}
        if event.modifiers() & Qt.KeyboardModifier.AltModifier:
            step = steps.get(Qt.Key(event.key()))
            if step is not None:
                self.act(step)
                return True
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Keys that the parts have no use for."""
        if not self.handle_key(event):
            super().keyPressEvent(event)
