"""Results of a search: conversations, and below each the places in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QBrush, QColor, QFont, QKeyEvent, QPainter, QTextCharFormat
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.conversations.snippet import Snippet, laid_out, line_height
from app.history import Conversation, Hit
from app.session.conversation_list import shown_title
from app.signals import TypedSignal
from app.theme.theme import current
from app.widgets.escape import claims_escape
from app.widgets.painting import RowState
from engine.language import tr, tr_count

Index = QModelIndex | QPersistentModelIndex
_SIDE = 10
_INDENT = 14
_PAD = 6
_PLACES = 3
"""Places shown of one conversation before the rest is folded into a row."""
_ROOT = QModelIndex()


@dataclass(frozen=True, slots=True)
class Found:
    """A row: a conversation (`is_title`), or a place in one."""

    hit: Hit
    is_title: bool
    more: int = 0
    """Number of places of this conversation that are folded away below."""


def rows_of(hits: Sequence[Hit], unfolded: int | None = None) -> list[Found]:
    """Hits by conversation, in the order they came; all places of the one that is `unfolded`."""
    groups: dict[int, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.conversation.id, []).append(hit)
    rows: list[Found] = []
    for conversation_id, group in groups.items():
        title = next((hit for hit in group if hit.message_id is None), None)
        rows.append(Found(title or _plain(group[0].conversation), is_title=True))
        places = [hit for hit in group if hit.message_id is not None]
        shown = len(places) if conversation_id == unfolded else _PLACES
        folded = len(places) - shown
        if folded == 1:
            shown, folded = shown + 1, 0
        rows.extend(Found(hit, is_title=False) for hit in places[:shown])
        if folded > 0:
            rows.append(Found(places[shown], is_title=False, more=folded))
    return rows


class HitsModel(QAbstractListModel):
    """The rows of one search."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hits: Sequence[Hit] = ()
        self.rows: list[Found] = []

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Show what was found."""
        self._fill(hits, None)

    def unfold(self, row: int) -> None:
        """Show all places of the conversation this row belongs to."""
        self._fill(self._hits, self.rows[row].hit.conversation.id)

    def _fill(self, hits: Sequence[Hit], unfolded: int | None) -> None:
        self.beginResetModel()
        self._hits, self.rows = hits, rows_of(hits, unfolded)
        self.endResetModel()

    def rowCount(self, parent: Index = _ROOT) -> int:  # noqa: N802
        """Rows in all; none below a row."""
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the text of the row, also for screen readers."""
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return None
        return row_text(self.rows[index.row()]).text if index.isValid() else None


class HitsView(QListView):
    """Results to go through with the arrow keys; Enter or a click opens."""

    chosen = TypedSignal[Hit]()
    left_upwards = Signal()
    """The keyboard went up from the first row."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.found = HitsModel(self)
        self.setModel(self.found)
        self.setItemDelegate(HitsDelegate(self.found, self))
        self.setAccessibleName(tr("Search results"))
        self.setMouseTracking(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.clicked.connect(lambda index: self.choose(index.row()))

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Show what was found, from the top."""
        self.found.show_hits(hits)
        self.scrollToTop()
        if self.found.rows:
            self.setCurrentIndex(self.found.index(0))

    def choose(self, row: int) -> None:
        """Open what a row shows, or unfold it."""
        if not 0 <= row < len(self.found.rows):
            return
        if self.found.rows[row].more:
            self.found.unfold(row)
            self.setCurrentIndex(self.found.index(row))
        else:
            self.chosen.emit(self.found.rows[row].hit)

    def event(self, event: QEvent) -> bool:
        """Escape ends the search, before it stops an answer."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter opens; Up from the first row goes back to the words."""
        row = self.currentIndex().row()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.choose(row)
        elif event.key() == Qt.Key.Key_Up and row <= 0:
            self.left_upwards.emit()
        else:
            super().keyPressEvent(event)


class HitsDelegate(QStyledItemDelegate):
    """A title in one line, a place in two, the words found marked in both."""

    def __init__(self, found: HitsModel, parent: HitsView) -> None:
        super().__init__(parent)
        self._found = found
        self._view = parent

    def sizeHint(self, _option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """Return the size of two lines for a place, one for the rest."""
        lines = self._lines(self._found.rows[index.row()])
        return QSize(80, round(lines * line_height(self._view.font())) + 2 * _PAD)

    def _lines(self, found: Found) -> int:
        """Return 2 for a place that needs two lines, else 1."""
        if found.is_title or found.more:
            return 1
        room = self._view.viewport().width() - 2 * _SIDE - _INDENT
        return 2 if self._view.fontMetrics().horizontalAdvance(found.hit.snippet) > room else 1

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a row."""
        tokens = current()
        row, found = RowState.of(option, self._view), self._found.rows[index.row()]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row.draw_background(painter)
        font = QFont(self._view.font())
        if found.is_title:
            font.setWeight(QFont.Weight.DemiBold)
        left = _SIDE if found.is_title else _SIDE + _INDENT
        room = QRectF(row.area).adjusted(left, _PAD, -_SIDE, -_PAD)
        mark = QTextCharFormat()
        mark.setBackground(QBrush(QColor(tokens.accent_soft)))
        mark.setForeground(QBrush(QColor(tokens.accent)))
        mark.setFontWeight(QFont.Weight.DemiBold)
        lines = self._lines(found)
        layout = laid_out(row_text(found), font, room.width(), lines, mark)
        painter.setPen(QColor(tokens.text if found.is_title else tokens.muted))
        layout.draw(painter, QPointF(room.left(), room.top()))
        painter.restore()


def row_text(found: Found) -> Snippet:
    """Return the text of a row."""
    if found.more:
        return Snippet(tr_count("{n} more match", "{n} more matches", found.more))
    if found.is_title and found.hit.message_id is None and found.hit.snippet:
        return Snippet.of(found.hit.snippet, found.hit.ranges)
    if found.is_title:
        return Snippet(shown_title(found.hit.conversation))
    return Snippet.of(found.hit.snippet, found.hit.ranges)


def _plain(conversation: Conversation) -> Hit:
    """Return a hit for a conversation in whose title nothing was found."""
    return Hit(conversation, None, "", ())
