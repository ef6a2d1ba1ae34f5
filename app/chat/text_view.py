"""A read-only text surface for one message: selectable, copyable, as high as its text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from PySide6.QtCore import QEvent, QMimeData, QPointF, QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QTextList,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.chat.markdown import Block, BlockStream, plain
from app.chat.writer import (
    CODE_HEADER,
    CODE_PADDING,
    INVISIBLE,
    DocumentWriter,
    Property,
    Region,
    RegionKind,
    prose_size,
)
from app.theme.icons import IconButton
from app.theme.theme import current
from app.theme.tokens import RADIUS
from engine.events import TokenSpan

_LONGEST = 200_000
"""Characters of one message that are laid out; the rest is only copied."""


class TextView(QTextBrowser):
    """Shows blocks of text without scroll bars; never loads files or addresses.

    `link_clicked` carries an address the reader wants to open, `hovered` the place in the source
    text under the mouse (-1: none). `settled` comes when a long text is laid out to its end.
    Places in the source count UTF-16 units.
    """

    link_clicked = Signal(str)
    hovered = Signal(int)
    settled = Signal()

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
        self.setProperty("surface", "text")
        self.document().setDocumentMargin(0)
        self._size_text()
        self.anchorClicked.connect(lambda url: self.link_clicked.emit(url.toString()))
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._stream = BlockStream()
        self._writer = DocumentWriter(self.document())
        self._source: list[str] = []
        self._length = 0
        self._shown = 0
        self._tokens = current()
        self.last_render_s = 0.0
        self._buttons: list[IconButton] = []

    @property
    def writer(self) -> DocumentWriter:
        """What writes the blocks, for those who paint over them."""
        return self._writer

    @property
    def raw_text(self) -> str:
        """The whole text as it came, also what is too long to show."""
        return "".join(self._source)

    def show_plain(self, text: str) -> None:
        """Show text as it is, without markdown."""
        self._restart()
        self._stream.committed.extend(plain(self._taken(text)))
        self._finish()

    def show_markdown(self, text: str) -> None:
        """Show a whole, finished text."""
        self._restart()
        self._stream.feed(self._taken(text))
        self._finish()

    def reopen(self, text: str) -> None:
        """Show a text that more will be appended to."""
        self._restart()
        self.append(text)

    def append(self, text: str) -> None:
        """Show more of a text that is being written."""
        self._stream.feed(self._taken(text))
        self._render(self._stream.tail)

    def finish(self) -> None:
        """No more text comes: all blocks are final."""
        self._finish()

    def complete(self) -> None:
        """Lay out at once what would follow in slices."""

    def set_tint(self, spans: Sequence[TokenSpan] | None) -> None:
        """Show where each stretch of text came from; None shows it no more."""

    def add_ghost(self, at: int, text: str) -> None:
        """Show drafted `text` that the target refused, at the place where it would have stood."""

    def clear_ghosts(self) -> None:
        """Show no refused text any more."""

    def mark_source(self, start: int, end: int) -> None:
        """Mark one stretch of the source text."""

    def clear_mark(self) -> None:
        """Take the mark away."""

    def source_at(self, point: QPointF) -> int:  # noqa: ARG002
        """The place in the source text shown at `point` of this widget; -1: none."""
        return -1

    def highlight_words(self, words: Sequence[str]) -> None:
        """Mark every occurrence of any of `words`, whatever their case; none: take marks away."""

    def first_hit(self) -> QRectF | None:
        """Where the first highlighted word is, in this widget."""
        return None

    def set_thought_seconds(self, seconds: float | None) -> None:
        """How long the answer was thought about, for its header; None: not known."""

    def set_thoughts_open(self, *, open_: bool) -> None:
        """Whether thoughts are shown opened."""

    def _taken(self, text: str) -> str:
        """Note `text`; what of it is to be shown."""
        self._source.append(text)
        room = max(_LONGEST - self._length, 0)
        self._length += len(text)
        return text[:room]

    def _finish(self) -> None:
        self._stream.finish()
        hidden = self._length - _LONGEST
        if hidden > 0:
            note = (
                f"\u2026 {hidden:,} more characters are not shown. Copying the message gives all."
            )
            self._stream.committed.extend(plain(note))
        self._render(())

    def _restart(self) -> None:
        self._stream = BlockStream()
        self._writer.clear()
        self._source = []
        self._length = self._shown = 0

    def _render(self, tail: tuple[Block, ...]) -> None:
        started = time.perf_counter()
        new = self._stream.committed[self._shown :]
        self._shown = len(self._stream.committed)
        self._writer.update(new, tail)
        self._fit()
        self._place_buttons()
        self.last_render_s = time.perf_counter() - started

    def _size_text(self) -> None:
        font = self.font()
        font.setPointSizeF(prose_size())
        self.document().setDefaultFont(font)

    def _fit(self, *_: object) -> None:
        """Take as much height as the text needs."""
        regions = self._writer.regions if hasattr(self, "_writer") else []
        ends_in_code = bool(regions) and (
            regions[-1].kind is RegionKind.CODE
            and regions[-1].last == self.document().blockCount() - 1
        )
        extra = CODE_PADDING if ends_in_code else 0
        height = int(self.document().size().height()) + extra + 1
        if height != self.height():
            self.setFixedHeight(height)

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as the text."""
        return QSize(super().sizeHint().width(), self.height())

    def loadResource(self, kind: int, name: QUrl | str) -> Any:  # noqa: ANN401, ARG002, N802
        """Nothing is loaded, whatever a text refers to."""
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """The transcript scrolls, not the message."""
        event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Buttons follow their code blocks."""
        super().resizeEvent(event)
        self._fit()
        self._place_buttons()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Write the document again when colours or the font change."""
        super().changeEvent(event)
        changed = event.type() is QEvent.Type.PaletteChange and hasattr(self, "_buttons")
        if changed and self._tokens is not current():
            QTimer.singleShot(0, self, self._rewrite)

    def _rewrite(self) -> None:
        self._tokens = current()
        self._size_text()
        self._writer.clear()
        self._shown = 0
        self._render(self._stream.tail)
        self.viewport().update()

    def createMimeDataFromSelection(self) -> QMimeData:  # noqa: N802
        """Copy list markers along, and giant lines in one piece."""
        data = QMimeData()
        data.setText(selected_text(self.textCursor()))
        return data

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Backgrounds of code, bars of quotes, then the text."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        visible = QRectF(event.rect())
        for region in self._writer.regions:
            box = self.region_box(region)
            if box.intersects(visible):
                self._paint_region(painter, region, box)
        painter.end()
        super().paintEvent(event)

    def region_box(self, region: Region) -> QRectF:
        """Where a region lies, in viewport coordinates."""
        layout = self.document().documentLayout()
        first = layout.blockBoundingRect(self.document().findBlockByNumber(region.first))
        last = layout.blockBoundingRect(self.document().findBlockByNumber(region.last))
        left, width = region.indent, self.viewport().width() - region.indent
        if region.kind is RegionKind.CODE:
            top = first.top() - CODE_HEADER
            return QRectF(left, top, width, last.bottom() + CODE_PADDING - top)
        return QRectF(left, first.top(), width, last.bottom() - first.top())

    def _paint_region(self, painter: QPainter, region: Region, box: QRectF) -> None:
        tokens = current()
        if region.kind is RegionKind.CODE:
            painter.setPen(QColor(tokens.border))
            painter.setBrush(QColor(tokens.sunken))
            painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
            painter.setPen(QColor(tokens.muted))
            font = self.font()
            font.setPointSizeF(font.pointSizeF() - 0.8)
            painter.setFont(font)
            strip = QRectF(box.left() + CODE_PADDING, box.top(), box.width() - 60, CODE_HEADER)
            painter.drawText(strip, Qt.AlignmentFlag.AlignVCenter, region.language or "text")
        elif region.kind is RegionKind.QUOTE:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.border_strong))
            painter.drawRoundedRect(QRectF(box.left(), box.top(), 3, box.height()), 1.5, 1.5)
        else:
            painter.fillRect(QRectF(box.left(), box.center().y(), box.width(), 1), tokens.border)

    def _place_buttons(self) -> None:
        """A copy button on every code block."""
        if not hasattr(self, "_buttons"):
            return
        regions = [region for region in self._writer.regions if region.kind is RegionKind.CODE]
        while len(self._buttons) < len(regions):
            button = IconButton("copy", "Copy code", self.viewport())
            button.clicked.connect(partial(self.copy_code, len(self._buttons)))
            QWidget.setTabOrder(self._buttons[-1] if self._buttons else self, button)
            self._buttons.append(button)
        for index, button in enumerate(self._buttons):
            button.setVisible(index < len(regions))
            if index < len(regions):
                box = self.region_box(regions[index])
                button.resize(28, 28)
                button.move(int(box.right()) - 32, int(box.top()) + 3)

    def copy_code(self, index: int, _checked: bool = False) -> None:
        """Copy the code block number `index`; its button shows a tick for a moment."""
        regions = [region for region in self._writer.regions if region.kind is RegionKind.CODE]
        QGuiApplication.clipboard().setText(regions[index].code)
        button = self._buttons[index]
        button.set_icon("check", "success")
        QTimer.singleShot(1500, button, lambda: button.set_icon("copy"))


def selected_text(cursor: QTextCursor) -> str:
    """The selection as plain text, with list markers, without breaks made for layout only."""
    start, end = cursor.selectionStart(), cursor.selectionEnd()
    block = cursor.document().findBlock(start)
    parts: list[str] = []
    while block.isValid() and block.position() <= end:
        style = block.blockFormat()
        text = block.text()
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
            units = text.encode("utf-16-le", "surrogatepass")
            chosen = units[2 * left : 2 * right].decode("utf-16-le", "replace")
            parts.append(chosen.replace("\u2028", "\n").replace(INVISIBLE, ""))
        block = block.next()
    return "".join(parts)
