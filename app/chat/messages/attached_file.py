"""A file within a message: a chip with its name and size, and its text when opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.text.source_map import utf16_length
from app.session.attachments import SentFile
from app.theme.icons import icon
from app.theme.theme import current
from engine.language import listed, tr, tr_count
from engine.language.units import file_size

if TYPE_CHECKING:
    from app.chat.text.text_view import TextView

_WIDEST_NAME = 260
_GAP = 8
_ICON = 16


class _Chip(QToolButton):
    """The chip of a file; Enter opens and closes it as a click does."""

    def __init__(self, file: SentFile, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "chip")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._icon, name, about = QLabel(self), QLabel(self), QLabel(self)
        self._arrow = QLabel(self)
        name.setText(
            name.fontMetrics().elidedText(file.name, Qt.TextElideMode.ElideMiddle, _WIDEST_NAME)
        )
        parts = [file_size(file.size), tr_count("{n} line", "{n} lines", file.lines)]
        about.setText(" \u00b7 ".join(parts))
        about.setProperty("look", "small")
        self.words = listed([file.name, *parts])
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(10, 5, 10, 5)
        row.setSpacing(8)
        for part in (self._icon, name, about, self._arrow):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            row.addWidget(part)
        self.show_state(opened=False)

    def show_state(self, *, opened: bool) -> None:
        self._opened = opened
        action = tr("Hide its text") if opened else tr("Show its text")
        self.setToolTip(action)
        self.setAccessibleName(f"{self.words}. {action}")
        self._icon.setPixmap(icon("file", current().muted).pixmap(_ICON, _ICON))
        arrow = "chevron-down" if opened else "chevron-right"
        self._arrow.setPixmap(icon(arrow, current().muted).pixmap(_ICON, _ICON))

    def sizeHint(self) -> QSize:  # noqa: N802
        return self._row.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.click()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_opened"):
            self.show_state(opened=self._opened)


class AttachedFile(QWidget):
    """Shows one file, closed at first. `resized` comes when it needs another height.

    Args:
        start: where its block begins in the message, in UTF-16 units.
    """

    resized = Signal()

    def __init__(self, file: SentFile, start: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.file = file
        self._start = start
        self.text: TextView | None = None
        """The text of the file, once it was opened."""
        self.opened = False
        """True if the text is to be seen."""
        self._words: Sequence[str] = ()
        self.chip = _Chip(file, self)
        self.chip.clicked.connect(lambda: self.set_opened(not self.opened))
        self._fit()

    def set_opened(self, opened: bool) -> None:
        """Show or hide the text of the file."""
        if opened is self.opened:
            return
        self.opened = opened
        if self.text is None:
            from app.chat.text.text_view import TextView

            self.text = TextView(self.file.name, self)
            self.text.highlight_words(self._words)
            self.text.resize(self.width(), self.text.height())
            self.text.resized.connect(self._fit)
            self.text.reopen(self.file.block, start=self._start, thoughts=False)
            self.text.finish()
        self.text.setVisible(opened)
        self.chip.show_state(opened=opened)
        self._fit()

    def holds(self, place: int) -> bool:
        """Return whether the file's text has this place of the message's source."""
        return self._start <= place < self._start + utf16_length(self.file.block)

    def highlight(self, words: Sequence[str]) -> None:
        """Mark words in the text, now or once it is opened."""
        self._words = words
        if self.text is not None:
            self.text.highlight_words(words)

    def unfolded_rect(self, start: int, end: int) -> QRectF | None:
        """Open the file and mark a stretch of the message's source; where it is in this widget."""
        self.set_opened(True)
        if self.text is None:
            return None
        self.text.complete()
        self.text.mark_source(start, end)
        rect = self.text.source_rect(start, end)
        return None if rect is None else rect.translated(QPointF(self.text.pos()))

    def clear_mark(self) -> None:
        """Take the mark away."""
        if self.text is not None:
            self.text.clear_mark()

    @property
    def natural_width(self) -> int:
        """Return the width of the chip."""
        return self.chip.sizeHint().width()

    def _fit(self) -> None:
        size = self.chip.sizeHint()
        self.chip.resize(min(size.width(), max(self.width(), 60)), size.height())
        height = size.height()
        if self.opened and self.text is not None:
            self.text.move(0, height + _GAP)
            height += _GAP + self.text.height()
        if height != self.height():
            self.resize(self.width(), height)
            self.resized.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The text takes the width there is."""
        super().resizeEvent(event)
        if self.text is not None and self.text.width() != self.width():
            self.text.resize(self.width(), self.text.height())
        self._fit()
