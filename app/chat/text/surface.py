"""The plain surface of a message's text: as high as it is, without scroll bars, selectable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QResizeEvent,
    QTextBlock,
    QTextCursor,
    QTextFragment,
    QTextList,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.chat.text.regions import INVISIBLE, Property

_STYLE_CHANGES = {
    QEvent.Type.PaletteChange,
    QEvent.Type.FontChange,
    QEvent.Type.StyleChange,
    QEvent.Type.ApplicationFontChange,
}


class TextSurface(QTextBrowser):
    """Shows a document at its full height; never loads files or addresses.

    `link_clicked` carries an address the reader wants to open, `resized` says that the text needs
    another height. `growing` comes just before it takes so many pixels more.
    """

    link_clicked = Signal(str)
    growing = Signal(int)
    resized = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setOpenLinks(False)
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        for each in (self, self.viewport()):
            each.setAttribute(Qt.WidgetAttribute.WA_StaticContents)  # longer: only more is painted
        self.setProperty("surface", "text")
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(lambda url: self.link_clicked.emit(url.toString()))

    def take_height(self, height: int) -> None:
        """Be as high as the text needs."""
        more = height - self.height()
        if more > 0:
            self.growing.emit(more)
        if more:
            self.resize(self.width(), height)  # whoever holds it places its parts by hand
            self.resized.emit()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return a size with the height of the text."""
        return QSize(super().sizeHint().width(), self.height())

    def loadResource(self, kind: int, name: QUrl | str) -> Any:  # noqa: ANN401, ARG002, N802
        """Load nothing, whatever a text refers to."""
        return None

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lines as wide as the widget.

        Laying out tells a new height, whereupon the column may give another width: Qt then ends
        with the width that it began with.
        """
        super().resizeEvent(event)
        width = self.viewport().width()
        if self.document().textWidth() != width:
            self.document().setTextWidth(width)
        if event.size().width() != event.oldSize().width():
            self.viewport().update()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """The transcript scrolls, not the message."""
        event.ignore()

    def createMimeDataFromSelection(self) -> QMimeData:  # noqa: N802
        """Copy list markers along, and giant lines in one piece."""
        data = QMimeData()
        data.setText(selected_text(self.textCursor()))
        return data


def changes_look(event: QEvent) -> bool:
    """Return whether an event may mean other colours or fonts."""
    return event.type() in _STYLE_CHANGES


def selected_text(cursor: QTextCursor) -> str:
    """The selection as plain text, with list markers, without breaks made for layout only."""
    start, end = cursor.selectionStart(), cursor.selectionEnd()
    block = cursor.document().findBlock(start)
    parts: list[str] = []
    while block.isValid() and block.position() <= end:
        style = block.blockFormat()
        left = max(start - block.position(), 0)
        right = min(end - block.position(), block.length() - 1)
        if not style.hasProperty(Property.FILLER):
            if parts and not style.hasProperty(Property.CONTINUES):
                parts.append("\n")
            items = cast("QTextList | None", block.textList())
            if items is not None and left == 0:
                indent = "  " * (items.format().indent() - 1)
                marker = items.itemText(block)
                parts.append(f"{indent}{marker if marker[:1].isalnum() else '-'} ")
            parts.append(_chosen(block, left, right))
        block = block.next()
    return "".join(parts)


def _chosen(block: QTextBlock, left: int, right: int) -> str:
    """The units `left` to `right` of a text block; of formulas, what they were made from."""
    units = block.text().encode("utf-16-le", "surrogatepass")
    parts: list[str] = []
    made = ""
    for fragment, formula in _fragments(block):
        start = max(fragment.position() - block.position(), left)
        end = min(fragment.position() - block.position() + fragment.length(), right)
        if start >= end or (formula and formula == made):
            continue
        made = formula
        text = units[2 * start : 2 * end].decode("utf-16-le", "replace")
        parts.append(formula or text.replace("\u2028", "\n").replace(INVISIBLE, ""))
    return "".join(parts)


def _fragments(block: QTextBlock) -> Iterator[tuple[QTextFragment, str]]:
    """The stretches of one format in a text block, with what they are the formula of."""
    at = block.begin()
    while not at.atEnd():
        fragment = at.fragment()
        yield fragment, str(fragment.charFormat().property(Property.SOURCE) or "")
        at += 1
