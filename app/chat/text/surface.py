"""The plain surface of a message's text: as high as it is, without scroll bars, selectable."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QResizeEvent, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.chat.text.selection import selected_html, selected_text

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
        """Copy list markers along, giant lines in one piece, tables as tables."""
        data = QMimeData()
        data.setText(selected_text(self.textCursor()))
        html = selected_html(self.textCursor())
        if html:
            data.setHtml(html)
        return data


def changes_look(event: QEvent) -> bool:
    """Return whether an event may mean other colours or fonts."""
    return event.type() in _STYLE_CHANGES
