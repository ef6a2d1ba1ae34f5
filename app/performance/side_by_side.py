"""The last question answered twice, side by side: with the draft, then without it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QFontInfo, QHideEvent
from PySide6.QtWidgets import QDialog, QLabel, QPushButton, QTextBrowser, QWidget

from app.engine_link.measured import FEWEST_TOKENS
from app.markdown.formula_object import FormulaObject, paint_formulas
from app.markdown.typeset_text import set_markdown
from app.notices import tell
from app.performance import wording
from app.performance.baseline import WithoutDraft
from app.theme.fonts import scaled
from app.theme.theme import current
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.labels import plain_label
from engine.events import AnswerStats, FinishReason
from engine.language import tr

TOKENS = 256
_FRAME_MS = 100
_WIDTH, _HEIGHT = 860, 460
_INDENT = 24


class SideBySide(QDialog):
    """Has the question answered now, first with the draft and then without it.

    Args:
        without: has both answers written, which go nowhere else.
    """

    def __init__(self, without: WithoutDraft, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("With and without the draft"))
        self._without = without
        self._side: int | None = None
        """The side that is being written."""
        self._written = ["", ""]
        self._timer = QTimer(self, singleShot=True, interval=_FRAME_MS)
        self._timer.timeout.connect(self._paint)
        self.speeds = [QLabel(self), QLabel(self)]
        self.texts = [_Rendered(self), _Rendered(self)]
        self.again = QPushButton(tr("Run again"), self)
        self.again.clicked.connect(self.start)
        self._build()
        without.wrote.connect(self._wrote)
        without.measured.connect(self._measured)
        without.changed.connect(self._show_state)
        self.resize(scaled(_WIDTH), scaled(_HEIGHT))

    def start(self) -> None:
        """Begin with both."""
        self._written = ["", ""]
        for text, speed in zip(self.texts, self.speeds, strict=True):
            text.clear()
            speed.setText("")
        self._write(0)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Nobody looks any more."""
        super().hideEvent(event)
        self._side = None
        self._without.cancel()

    def _write(self, side: int) -> None:
        self._side = side
        self._without.measure(on_show=True, tokens=TOKENS, drafting=side == 0)
        if self._without.measuring:
            self.speeds[side].setText(tr("writing"))

    def _build(self) -> None:
        columns = hbox(spacing=16)
        names = (tr("With the draft"), tr("Without it"))
        for name, speed, text in zip(names, self.speeds, self.texts, strict=True):
            heading = QLabel(name, self)
            heading.setProperty("look", "section-title")
            text.setAccessibleName(name)
            columns.addLayout(vbox(hbox((heading, 1), speed), (text, 1)), 1)
        about = plain_label(
            tr(
                "Both are written now, one after the other, up to {n} tokens each; neither is kept."
            ).format(n=TOKENS),
            self,
            "muted",
        )
        close = QPushButton(tr("Close"), self)
        close.clicked.connect(self.reject)
        vbox(about, Spacing(6), (columns, 1), hbox(self.again, 1, close), to=self)

    # -- what happens ----------------------------------------------------------------------

    def _wrote(self, text: str) -> None:
        if self._side is not None:
            self._written[self._side] += text
            if not self._timer.isActive():
                self._timer.start()

    def _paint(self) -> None:
        for text, written in zip(self.texts, self._written, strict=True):
            text.show_markdown(written)

    def _measured(self, stats: AnswerStats, reason: FinishReason) -> None:
        side, self._side = self._side, None
        if side is None:
            return
        self._paint()
        self.speeds[side].setText(_speed(stats))
        if side == 0 and reason not in (FinishReason.STOPPED, FinishReason.ERROR):
            QTimer.singleShot(0, self, lambda: self._write(1))

    def _show_state(self) -> None:
        self.again.setEnabled(self._without.possible)


def _speed(stats: AnswerStats) -> str:
    """Return the speed of an answer, or that it is too short to have one."""
    if stats.tokens_per_s is None or stats.committed < FEWEST_TOKENS:
        return tr("too short to measure")
    return tr("{speed} tokens/s").format(speed=wording.rate(stats.tokens_per_s))


def compare(without: WithoutDraft, parent: QWidget) -> None:
    """Open the comparison and begin with it, or say what is missing for it."""
    if without.hindrance:
        tell(without.hindrance)
        return
    dialog = SideBySide(without, parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
    dialog.start()


class _Rendered(QTextBrowser):
    """Markdown to look at; loads nothing, and opens no link."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "reading")
        self.setOpenLinks(False)
        self.document().setDefaultStyleSheet(_style())
        self.document().setIndentWidth(_INDENT)
        paint_formulas(self.document(), FormulaObject(self))
        self._shown = ""

    def show_markdown(self, text: str) -> None:
        """Show this text, with its end in view."""
        if text != self._shown:
            self._shown = text
            set_markdown(self.document(), text, QFontInfo(self.font()).pixelSize())
            bar = self.verticalScrollBar()
            bar.setValue(bar.maximum())

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:  # noqa: N802
        """Load nothing: an answer could name a file or an address."""
        return None


def _style() -> str:
    """Return how tables and code look, as in the chat."""
    tokens = current()
    return (
        f"table {{ border-collapse: collapse; border: 1px solid {tokens.border}; margin: 6px 0 }}"
        f"th, td {{ border: 1px solid {tokens.border}; padding: 3px 6px; text-align: left }}"
        f"pre {{ background-color: {tokens.sunken}; white-space: pre-wrap }}"
    )
