"""The messages of a conversation, as a column that stays where the reader is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.messages.column import TOP, Column
from app.chat.messages.edge_scroll import EdgeScroll
from app.chat.messages.message_actions import MessageRequests
from app.chat.messages.message_focus import MessageFocus
from app.chat.messages.message_footer import footer_height
from app.chat.messages.message_row import GAP
from app.chat.messages.message_view import AnswerMessage, Bubble
from app.chat.messages.user_message import BUBBLE_EDGE, UserMessage
from app.history import StoredMessage
from app.session.attachments import sent_files
from app.session.live_answer import LiveAnswer
from app.theme.icons import IconButton
from app.theme.theme import current, ui_font
from engine.language import tr
from engine.request import Role

if TYPE_CHECKING:
    from app.chat.messages.tool_message import ToolMessage
    from app.tools.call_phase import CallPhase
    from app.tools.entry import ToolEntry

    CallState = tuple[CallPhase, ToolEntry | None]
_CARD = 120
"""About the height of a tool's card."""
_PLACEHOLDER_LINE = 26
_HIT_BELOW = 80
"""Pixels above a search hit that is scrolled to."""


class Transcript(Column):
    """Shows the messages of one conversation."""

    link_clicked = Signal(str)
    text_hovered = Signal(int, int)
    """A message, and the place in its text that the mouse is on (UTF-16 units; -1: none)."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.requests = MessageRequests(self)
        self.requests.show_version.connect(self._keep_arrows)
        self.setAccessibleName(tr("Conversation"))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.call_state: Callable[[StoredMessage], CallState] | None = None
        """Returns how far the call in a tool's message is, and the tool."""
        self._messages: list[StoredMessage] = []
        self._marked: tuple[int, int, int] | None = None
        self._searched: tuple[int | None, Sequence[str]] | None = None
        """The message that words are marked in, None for all of them; and the words."""
        self._match_asked = False
        """True if the marked stretch is still to be scrolled to."""
        self._tinted = self._thoughts_open = False
        self._unseen: tuple[int, str] | None = None
        self._hit_asked = False
        """True if the first hit is still to be scrolled to."""
        self._stepped: tuple[int, int] | None = None
        """The message of which another version was asked for, and where its footer was."""
        self._edges = EdgeScroll(self)
        self._focus = MessageFocus(self)
        self._to_end = IconButton("down", tr("Jump to the end"), self, shortcut="Ctrl+End")
        self._to_end.setProperty("look", "floating")
        self._to_end.setFixedSize(QSize(36, 36))
        self._to_end.clicked.connect(self.jump_to_end)
        self._to_end.hide()
        self.following_changed.connect(lambda following: self._to_end.setVisible(not following))

    # -- messages ------------------------------------------------------------------------------

    @property
    def bubbles(self) -> Sequence[Bubble]:
        """The messages that are widgets now, oldest first."""
        return [cast("Bubble", row) for _, row in self.live_rows]

    def bubble_at(self, index: int) -> Bubble:
        """The widget of a message, made if there is none; from the end where negative."""
        return cast("Bubble", self.row(index % len(self._messages)))

    def show_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Show a conversation from its end."""
        self._messages = list(messages)
        self._marked = self._searched = None
        self.reset_rows()

    def replace_from(self, index: int, messages: Sequence[StoredMessage]) -> None:
        """Replace the messages from `index` on; the view stays where it is."""
        old, focused = self._messages, self.row_holding(QApplication.focusWidget())
        while index < min(len(old), len(messages)) and self._same(old[index], messages[index]):
            index += 1
        if focused is not None and focused >= index:
            self.setFocus()  # while the row that loses it is still there
        self._messages = list(messages)
        self.replace_rows(index)
        self._mark_last()
        if self._stepped is not None and self._stepped[0] == index < len(messages):
            self.make_ready(index)
        else:
            self._stepped = None
        if focused is not None and index <= focused < len(messages):
            self._focus.keep(focused)

    def add(self, message: StoredMessage) -> Bubble:
        """Append a message and go to it."""
        self._messages.append(message)
        self.add_rows()
        self._mark_last()
        self.jump_to_end()
        return self.bubble_at(-1)

    def follow(self, live: LiveAnswer) -> None:
        """Show what comes of the answer at the end."""
        answer = self.last_answer()
        if answer is not None:
            answer.follow(live)

    def take_in(self, message: StoredMessage) -> None:
        """Keep what a message has become, for when its row is made anew."""
        index = self._index(message.id)
        if index is not None:
            self._messages[index] = message

    def show_calls(self) -> None:
        """Show how far the tool calls are."""
        for bubble in self.bubbles:
            index = self._index(bubble.message.id)
            self._show_call(bubble, None if index is None else self._messages[index])

    def _show_call(self, bubble: Bubble, message: StoredMessage | None = None) -> None:
        if (row := _as_tool(bubble)) is not None and self.call_state is not None:
            message = message or row.message
            row.show_call(message, *self.call_state(message))

    def lead_to_call(self, index: int) -> None:
        """Lead the keyboard to the question whether a call may run."""
        if (row := _as_tool(self.bubble_at(index))) is not None:
            self.make_ready(index)
            self.scroll_into_view(index)
            row.card.first_choice.setFocus(Qt.FocusReason.TabFocusReason)

    def last_answer(self) -> AnswerMessage | None:
        """The answer at the end, if there is one."""
        if not self._messages or self._messages[-1].role is not Role.ASSISTANT:
            return None
        bubble = self.bubble_at(-1)
        return bubble if isinstance(bubble, AnswerMessage) else None

    def reveal(self, message_id: int, words: Sequence[str] = ()) -> None:
        """Scroll to a message, and to the first of `words` in it; all of them are highlighted."""
        index = self._index(message_id)
        if index is None:
            return
        self._unsearch()
        self._searched, self._hit_asked = (message_id, tuple(words)), bool(words)
        self.show_row(index, -TOP)
        self._show_hits(index)

    def search(self, words: str) -> None:
        """Highlight `words` in every message; empty: nowhere any more."""
        self.clear_mark()
        self._unsearch()
        self._searched = (None, (words,)) if words.strip() else None
        for index, _ in self.live_rows:
            self._show_hits(index)

    def show_match(self, message_id: int, start: int, end: int) -> None:
        """Mark a stretch of a message's source, unfold and scroll to it."""
        index = self._index(message_id)
        if index is None:
            return
        self.clear_mark()
        self._marked, self._match_asked = (message_id, start, end), True
        if index not in self.visible_range():
            self.show_row(index, -TOP)
        self.make_ready(index)
        self._go_to_match(index)

    def _go_to_match(self, index: int) -> None:
        """Scroll to the marked stretch once its message is laid out, unless it is in sight."""
        marked = self._marked
        if marked is None or not self._match_asked or not self.is_ready(index):
            return
        self._match_asked = False
        inside = self.bubble_at(index).unfolded_y(*marked[1:]) or 0
        y = self.row_top(index) + inside
        if not 0 <= y < self.viewport().height() - _HIT_BELOW:
            self.put_row(index, inside, self.viewport().height() // 3)

    def set_reading(self, *, tinted: bool, thoughts_open: bool) -> None:
        """Set whether drafted words are tinted, and whether thoughts are shown."""
        before = (self._tinted, self._thoughts_open)
        self._tinted, self._thoughts_open = tinted, thoughts_open
        for bubble in self.bubbles if before != (tinted, thoughts_open) else ():
            self._apply_reading(bubble)

    def _apply_reading(self, bubble: Bubble) -> None:
        if isinstance(bubble, AnswerMessage):
            bubble.show_tint(on=self._tinted)
            bubble.text.set_thoughts_open(open_=self._thoughts_open)

    def set_unseen(self, message_id: int | None, words: str = "") -> None:
        """Draw a line with `words` below the last message that the model does not see."""
        unseen = None if message_id is None else (message_id, words)
        if unseen != self._unseen:
            self._unseen = unseen
            for bubble in self.bubbles:
                bubble.show_divider(self._divider_below(bubble.message.id))

    def _divider_below(self, message_id: int) -> str:
        found = self._unseen is not None and self._unseen[0] == message_id
        return self._unseen[1] if found and self._unseen is not None else ""

    def mark_answer_range(self, message_id: int, start: int, end: int) -> None:
        """Mark a stretch of a message's text, in UTF-16 units."""
        self.clear_mark()
        self._marked = (message_id, start, end)
        bubble = self._live_bubble(message_id)
        if bubble is not None:
            bubble.text.mark_source(start, end)

    def clear_mark(self) -> None:
        """Take the mark away."""
        bubble = None if self._marked is None else self._live_bubble(self._marked[0])
        self._marked, self._match_asked = None, False
        if bubble is not None:
            bubble.clear_mark()

    def _same(self, old: StoredMessage, new: StoredMessage) -> bool:
        """Return whether a message is still the one that is shown; its row learns what is new."""
        if (old.id, old.role, old.text, old.state) != (new.id, new.role, new.text, new.state):
            return False
        bubble = self._live_bubble(new.id)
        if bubble is not None and old != new:
            bubble.message = new
            bubble.update_parts()
        return True

    def _index(self, message_id: int) -> int | None:
        places = range(len(self._messages))
        return next((i for i in reversed(places) if self._messages[i].id == message_id), None)

    def _live_bubble(self, message_id: int) -> Bubble | None:
        return next((each for each in self.bubbles if each.message.id == message_id), None)

    # -- rows ----------------------------------------------------------------------------------

    def make_row(self, index: int) -> Bubble:
        """The widget of a message."""
        message = self._messages[index]
        bubble = _kind(message)(message, self.requests, self.viewport())
        self._show_call(bubble)
        bubble.set_last(last=index == len(self._messages) - 1)
        text = bubble.text
        text.link_clicked.connect(self.link_clicked)
        text.hovered.connect(lambda at: self.text_hovered.emit(bubble.message.id, at))
        text.selectionChanged.connect(lambda: self._selected_in(bubble))
        self._edges.watch(text.viewport())
        if self._tinted or self._thoughts_open:
            self._apply_reading(bubble)
        bubble.show_divider(self._divider_below(message.id))
        return bubble

    def row_ready(self, index: int) -> None:
        """Set the marks of a message that is laid out now."""
        bubble = self.bubble_at(index)
        if self._marked is not None and self._marked[0] == bubble.message.id:
            bubble.text.mark_source(*self._marked[1:])
            self._go_to_match(index)
        self._show_hits(index)
        if self._stepped is not None and self._stepped[0] == index:
            y, self._stepped = self._stepped[1], None
            self.put_row(index, bubble.footer.y(), y)

    def _keep_arrows(self, message_id: int) -> None:
        """Have the arrows of another version where those of this one are."""
        index, bubble = self._index(message_id), self._live_bubble(message_id)
        if index is not None and bubble is not None:
            self._stepped = (index, self.row_top(index) + bubble.footer.y())

    def estimates(self, first: int, width: int) -> Iterable[int]:
        """Heights by counting characters and lines."""
        metrics = QFontMetricsF(ui_font())
        per_line = max(int(width / metrics.averageCharWidth()), 8)
        line = int(metrics.height() * 1.4)
        around = footer_height() + max(GAP, 2 * BUBBLE_EDGE)
        return [
            around + _CARD
            if message.role is Role.TOOL
            else around + line * (1 + len(text) // per_line + text.count("\n"))
            for message, text in zip(
                self._messages[first:], map(_unfolded, self._messages[first:]), strict=True
            )
        ]

    def paint_missing(self, painter: QPainter, index: int, area: QRect) -> None:
        """Paint a bubble without words, or bars in place of lines."""
        tokens = current()
        painter.setPen(Qt.PenStyle.NoPen)
        area.setHeight(area.height() - footer_height())
        if self._messages[index].role is Role.USER:
            painter.setBrush(QColor(tokens.bubble))
            area.setLeft(area.right() - area.width() // 2)
            painter.drawRoundedRect(area, 14, 14)
            return
        painter.setBrush(QColor(tokens.hover))
        visible = area.intersected(self.viewport().rect())
        first = max(visible.top() - area.top(), 0) // _PLACEHOLDER_LINE
        for number in range(first, first + visible.height() // _PLACEHOLDER_LINE + 1):
            width = int(area.width() * (1.0, 0.94, 0.97, 0.6)[number % 4])
            bar = QRect(area.left(), area.top() + _PLACEHOLDER_LINE * number + 6, width, 10)
            if bar.bottom() < area.bottom():
                painter.drawRoundedRect(bar, 5, 5)

    def _mark_last(self) -> None:
        for index, row in self.live_rows:
            cast("Bubble", row).set_last(last=index == len(self._messages) - 1)

    def _selected_in(self, bubble: Bubble) -> None:
        """Text is selected in one message at a time."""
        if not bubble.text.textCursor().hasSelection():
            return
        for other in self.bubbles:
            cursor = other.text.textCursor()
            if other is not bubble and cursor.hasSelection():
                cursor.clearSelection()
                other.text.setTextCursor(cursor)

    def _show_hits(self, index: int) -> None:
        """Highlight what was searched for, and scroll to the first hit when it is far down."""
        if self._searched is None or not self.is_ready(index):
            return
        if self._searched[0] not in (None, self._messages[index].id):
            return
        bubble = self.bubble_at(index)
        bubble.highlight(self._searched[1])
        asked, self._hit_asked = self._hit_asked, False
        hit = bubble.text.first_hit() if asked else None
        if hit is not None and hit.bottom() + _HIT_BELOW > self.viewport().height():
            self.show_row(index, bubble.text_top + int(hit.top()) - _HIT_BELOW)

    def _unsearch(self) -> None:
        self._searched = None
        for bubble in self.bubbles:
            bubble.highlight(())

    # -- keyboard ------------------------------------------------------------------------------

    def row_made(self, index: int) -> None:
        """The keyboard gets to a message that is a widget now."""
        self._focus.take_in(self.bubble_at(index))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The keys that the messages leave over."""
        if not self._focus.moves(event):
            super().keyPressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Tab goes through the messages in sight, then on; widgets out of sight are passed over."""
        return self._focus.next_stop(forward=forward) or super().focusNextPrevChild(forward)

    # -- events --------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The button floats above the end."""
        super().resizeEvent(event)
        x = (self.width() - self._to_end.width()) // 2
        self._to_end.move(x, self.height() - self._to_end.height() - 12)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Texts write themselves anew when the font changes."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.reflow()


def _kind(message: StoredMessage) -> type[Bubble]:
    """Return the kind of row that shows a message."""
    match message.role:
        case Role.ASSISTANT:
            return AnswerMessage
        case Role.TOOL:
            from app.chat.messages.tool_message import ToolMessage  # few chats have one

            return ToolMessage
    return UserMessage


def _as_tool(bubble: Bubble) -> ToolMessage | None:
    """Return the row of a tool's message as one; None: it is another's."""
    if bubble.message.role is not Role.TOOL:
        return None
    return cast("ToolMessage", bubble)


def _unfolded(message: StoredMessage) -> str:
    """The text of a message that is shown without opening anything, about as long as it looks."""
    if message.role is not Role.USER:
        return "" if message.role is Role.TOOL else message.text
    files, said = sent_files(message.text)
    return "\n\n" * len(files) + message.text[said:]
