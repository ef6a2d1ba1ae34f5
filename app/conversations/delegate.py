"""Painting of headings, folders and conversations, and renaming in place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QHelpEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from app.conversations.model import ConversationModel, Index
from app.conversations.sections import ConversationSection, SectionKind
from app.history import Conversation
from app.session.conversation_list import shown_title
from app.theme.fonts import scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.widgets.painting import (
    MORE,
    RowState,
    draw_background,
    draw_line,
    draw_more,
    more_area,
    shortened,
)
from engine.language import tr

_SIDE = 10
_INDENT = 20
_ICON = 16
_CHEVRON = 12


class ConversationDelegate(QStyledItemDelegate):
    """Draws the rows; all are equally high."""

    def __init__(self, model: ConversationModel, parent: QAbstractItemView) -> None:
        super().__init__(parent)
        self._model = model
        self._view = parent
        self.open_id: int | None = None
        """The conversation shown in the window."""
        self.pointer = QPoint(-1, -1)
        """Place of the mouse in the list."""
        self.drop_section: ConversationSection | None = None
        """The section that what is being dragged would go to."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:  # noqa: N802
        """High enough for a finger, and for large text."""
        return QSize(80, max(32, self._view.fontMetrics().height() + 14))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a row."""
        entry, row = self._model.entry(index), RowState.of(option, self._view)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(entry, Conversation):
            self._paint_conversation(painter, row, self._left(index), entry)
        elif entry is not None and entry.folder is not None:
            self._paint_folder(painter, row, entry)
        elif entry is not None:
            self._paint_heading(painter, row, entry)
        painter.restore()

    def createEditor(  # noqa: N802
        self, parent: QWidget, _option: QStyleOptionViewItem, _index: Index
    ) -> QWidget:
        """Make a field over the title."""
        editor = QLineEdit(parent, maxLength=300)
        editor.setAccessibleName(tr("New name"))
        return editor

    def updateEditorGeometry(  # noqa: N802
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Place the editor over the text, as wide as the row."""
        area = RowState.of(option, self._view).area
        editor.setGeometry(area.adjusted(int(self._left(index)) - _SIDE // 2, 1, -2, -1))

    def helpEvent(  # noqa: N802
        self,
        event: QHelpEvent,
        view: QAbstractItemView,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """The whole title, where the row has no room for it."""
        entry = self._model.entry(index)
        if event.type() is not QEvent.Type.ToolTip or not isinstance(entry, Conversation):
            return bool(super().helpEvent(event, view, option, index))
        area = RowState.of(option, self._view).area
        if more_area(area).contains(event.pos()):
            text = tr("More (menu key)")
        else:
            title = shown_title(entry)
            room = area.width() - self._left(index) - _SIDE
            text = "" if shortened(title, self._font(entry), room) == title else title
        QToolTip.showText(event.globalPos(), text, view)
        return True

    # -- rows ------------------------------------------------------------------------------

    def _paint_conversation(
        self, painter: QPainter, row: RowState, left: float, conversation: Conversation
    ) -> None:
        tokens = current()
        row.draw_background(painter)
        if conversation.id == self.open_id:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.accent))
            mark = QRectF(row.area.left() + left - 7, row.area.center().y() - 7, 3, 15)
            painter.drawRoundedRect(mark, 1.5, 1.5)
        right = self._paint_more(painter, row) or _SIDE
        room = QRectF(row.area).adjusted(left, 0, -right, 0)
        draw_line(painter, room, shown_title(conversation), self._font(conversation), tokens.text)

    def _paint_folder(self, painter: QPainter, row: RowState, section: ConversationSection) -> None:
        tokens, font, area = current(), self._view.font(), row.area
        row.draw_background(painter)
        if section is self.drop_section:
            draw_background(painter, area, tokens.accent_soft, tokens.accent)
        middle = area.center().y() + 1
        arrow = "chevron-down" if section.is_open else "chevron-right"
        side = scaled(_CHEVRON)
        place = QRect(area.left() + 5, middle - side // 2, side, side)
        icon(arrow, tokens.muted).paint(painter, place)
        side = scaled(_ICON)
        place = QRect(area.left() + scaled(_INDENT), middle - side // 2, side, side)
        icon("folder", tokens.muted).paint(painter, place)
        right = self._paint_more(painter, row)
        if not right:
            count = str(len(section.conversations))
            right = self._view.fontMetrics().horizontalAdvance(count) + _SIDE
            room = QRectF(area.right() - right, area.top(), right, area.height())
            draw_line(painter, room, count, font, tokens.muted)
        room = QRectF(area).adjusted(_folder_text(), 0, -right - 4, 0)
        draw_line(painter, room, section.title, font, tokens.text)

    def _paint_heading(
        self, painter: QPainter, row: RowState, section: ConversationSection
    ) -> None:
        tokens = current()
        if section is self.drop_section:
            draw_background(painter, row.area, tokens.accent_soft, tokens.accent)
        room = QRectF(row.area).adjusted(_SIDE, 8, -_SIDE, 0)
        draw_line(painter, room, section.title, small(self._view.font()), tokens.muted)

    def _paint_more(self, painter: QPainter, row: RowState) -> int:
        """The three dots, where a row has them now; how much room they take."""
        if not (row.hovered or row.focused):
            return 0
        place = more_area(row.area)
        draw_more(painter, place, over=row.hovered and place.contains(self.pointer))
        return MORE + 4

    def _left(self, index: Index) -> float:
        section = self._model.section_of(index)
        in_folder = section is not None and section.key.kind is SectionKind.FOLDER
        if in_folder and isinstance(self._model.entry(index), ConversationSection):
            return _folder_text()
        return _SIDE + (scaled(_INDENT) if in_folder else 0)

    def _font(self, conversation: Conversation) -> QFont:
        font = QFont(self._view.font())
        if conversation.id == self.open_id:
            font.setWeight(QFont.Weight.DemiBold)
        return font


def _folder_text() -> int:
    """Return where the name of a folder begins."""
    return scaled(_INDENT + _ICON + 8)


def small(font: QFont) -> QFont:
    """The font of headings."""
    result = QFont(font)
    result.setPointSizeF(font.pointSizeF() - 1)
    return result
