"""The last question answered twice, side by side: with the draft, and without it."""

from __future__ import annotations

from bisect import bisect_right
from time import perf_counter

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QDialog, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.performance import wording
from app.performance.baseline import WithoutDraft
from app.performance.sight import Sight
from app.theme.fonts import scaled
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from engine.events import AnswerStats
from engine.language import tr

TOKENS = 256
_FRAME_MS = 40
_WIDTH, _HEIGHT = 860, 460


class SideBySide(QDialog):
    """Repeats the answer as fast as it came, beside the same one written without the draft.

    Args:
        sight: the answer on show, that to the last question.
        without: has the question answered without the draft.
    """

    def __init__(self, sight: Sight, without: WithoutDraft, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("With and without the draft"))
        self._without, self._tally = without, sight.tally
        self._pieces = [each.text for each in sight.written.tokens.rounds]
        ends = [each.done.at for each in sight.written.tokens.rounds]
        self._ends = [at - ends[0] for at in ends]
        self._shown = 0
        self._began: float | None = None
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self._go_on)
        self.speeds = [QLabel(self), QLabel(self)]
        self.texts = [QPlainTextEdit(self), QPlainTextEdit(self)]
        self.again = QPushButton(tr("Run again"), self)
        self.again.clicked.connect(self.start)
        self._build()
        without.wrote.connect(self._wrote)
        without.measured.connect(self._measured)
        without.changed.connect(self._show_state)
        self.resize(scaled(_WIDTH), scaled(_HEIGHT))

    def start(self) -> None:
        """Begin with both."""
        for text in self.texts:
            text.clear()
        for speed in self.speeds:
            speed.setText("")
        self._shown, self._began = 0, None
        self._timer.stop()
        self._without.measure(tokens=TOKENS)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Nobody looks any more."""
        super().hideEvent(event)
        self._timer.stop()
        self._without.cancel()

    def _build(self) -> None:
        columns = hbox(spacing=16)
        names = (tr("With the draft"), tr("Without it"))
        for name, speed, text in zip(names, self.speeds, self.texts, strict=True):
            heading = QLabel(name, self)
            heading.setProperty("look", "section-title")
            text.setReadOnly(True)
            text.setAccessibleName(name)
            columns.addLayout(vbox(hbox((heading, 1), speed), (text, 1)), 1)
        about = plain_label(
            tr(
                "On the left the answer comes again at the speed it was written with; on the "
                "right it is written now without the draft, up to {n} tokens."
            ).format(n=TOKENS),
            self,
            "muted",
        )
        close = QPushButton(tr("Close"), self)
        close.clicked.connect(self.reject)
        vbox(about, (columns, 1), hbox(self.again, 1, close), to=self)

    # -- what happens ----------------------------------------------------------------------

    def _wrote(self, text: str) -> None:
        if self._began is None:
            self._began = perf_counter()
            self._timer.start()
        _append(self.texts[1], text)

    def _go_on(self) -> None:
        """Show what was written by now."""
        elapsed = perf_counter() - (self._began or 0.0)
        until = bisect_right(self._ends, elapsed)
        _append(self.texts[0], "".join(self._pieces[self._shown : until]))
        self._shown = until
        if until == len(self._pieces):
            self._timer.stop()
            self._say(0, None if self._tally is None else self._tally.tokens_per_s)

    def _measured(self, stats: AnswerStats) -> None:
        self._say(1, stats.tokens_per_s)

    def _say(self, side: int, tokens_per_s: float | None) -> None:
        if tokens_per_s is not None:
            said = tr("{speed} tokens/s").format(speed=wording.rate(tokens_per_s))
            self.speeds[side].setText(said)

    def _show_state(self) -> None:
        self.again.setEnabled(self._without.possible)


def _append(area: QPlainTextEdit, text: str) -> None:
    """Write behind everything, wherever the cursor is, and keep the end in view."""
    cursor = area.textCursor()
    cursor.movePosition(cursor.MoveOperation.End)
    cursor.insertText(text)
    bar = area.verticalScrollBar()
    bar.setValue(bar.maximum())
