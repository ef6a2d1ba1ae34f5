"""A thought within an answer: a line that says how long it took, and the thought when opened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.theme.icons import icon
from app.theme.theme import current
from engine.language import tr

if TYPE_CHECKING:
    from app.chat.text.text_view import TextView

_HEADER = 30
_INSET = 16
_GAP = 4
QUIET = 0.94
"""Size of a thought's text, of an answer's."""


class ThoughtView(QWidget):
    """Shows one thought, closed at first. `resized` comes when it needs another height."""

    resized = Signal()

    def __init__(self, text: TextView, start: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.text = text
        self._unread: list[str] = []
        self.start = start
        """Place in the source where the thought begins, in UTF-16 units."""
        self._read = self._over = False
        text.setParent(self)
        text.hide()
        self.opened = False
        """True if the thought is to be seen."""
        self._began: float | None = None
        self._seconds: float | None = None
        self._live = False
        self.header = QToolButton(self, autoRaise=True)
        self.header.setProperty("look", "quiet")
        self.header.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.header.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.header.clicked.connect(lambda: self.set_opened(not self.opened))
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._say)
        text.resized.connect(self._fit)
        self._say()
        self._fit()

    def set_opened(self, opened: bool) -> None:
        """Show or hide the thought."""
        if opened is not self.opened:
            self.opened = opened
            self._show_text()
            self.text.setVisible(opened)
            self._say()
            self._fit()

    def add(self, text: str) -> None:
        """Take in more of the thought; it is laid out when somebody wants to see it."""
        if text:
            self._unread.append(text)
            self._show_text()

    def _show_text(self) -> None:
        if not self.opened:
            return
        text = "".join(self._unread)
        self._unread.clear()
        if not self._read:
            self.text.reopen(text, start=self.start, thoughts=False)
            self._read = True
        elif text:
            self.text.append(text)
        if self._over:
            self.text.finish()

    def begin(self) -> None:
        """The thought is being written from now on."""
        self._live, self._began = True, time.monotonic()
        self._clock.start()
        self._say()

    def end(self) -> None:
        """The thought is complete."""
        if self._over:
            return
        if self._live and self._began is not None:
            self._seconds = time.monotonic() - self._began
        self._live, self._over = False, True
        self._clock.stop()
        self._show_text()
        self._say()

    def heading(self) -> str:
        """Return the text of the header."""
        if self._live and self._began is not None:
            seconds = int(time.monotonic() - self._began)
            return tr("Thinking\u2026") + (f"  {_duration(seconds)}" if seconds else "")
        if self._seconds is None:
            return tr("Thoughts")
        return tr("Thought for {time}").format(time=_duration(max(round(self._seconds), 1)))

    def _say(self) -> None:
        words = self.heading()
        self.header.setText(words)
        action = tr("Hide thinking") if self.opened else tr("Show thinking")
        self.header.setAccessibleName(f"{words}. {action}")
        self.header.setToolTip(action)
        name = "chevron-down" if self.opened else "chevron-right"
        self.header.setIcon(icon(name, current().muted))
        self.header.adjustSize()

    def _fit(self) -> None:
        height = _HEADER
        if self.opened:
            self.text.setFixedWidth(max(self.width() - _INSET, 40))
            height += _GAP + self.text.height()
        if height != self.height():
            self.setFixedHeight(height)
            self.resized.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The thought takes the width there is."""
        super().resizeEvent(event)
        self.text.move(_INSET, _HEADER + _GAP)
        self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """Paint a thin bar beside the opened thought."""
        if self.opened:
            painter = QPainter(self)
            painter.fillRect(3, _HEADER + _GAP, 2, self.text.height(), QColor(current().border))


def _duration(seconds: int) -> str:
    if seconds < 60:
        return tr("{n} s").format(n=seconds)
    return tr("{minutes} min {seconds} s").format(minutes=seconds // 60, seconds=seconds % 60)
