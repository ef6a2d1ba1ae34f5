"""The gain of drafting as a picture: the headline, two bars, and why it is so."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter
from PySide6.QtWidgets import QWidget

from app.performance.baseline import WithoutDraft
from app.performance.frames import PaintedView
from app.performance.gain import Gain, SpeedBar, gain_of
from app.performance.sight import Sight
from app.theme.theme import current
from app.widgets.painting import shortened
from app.widgets.table import Table
from app.widgets.terms import explained
from engine.language import sentences, tr

_BAR = 12
_GAP = 8
_BESIDE = 640
"""Logical pixels from which on the bars stand beside the texts."""
_BETWEEN = 40
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WRAPPED = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap


class GainView(PaintedView):
    """Says whose answer is on show, how much faster it came, and why.

    Args:
        sight: the answer on show.
        without: has the speed without the draft measured; None: nobody does.
    """

    def __init__(
        self, sight: Sight, without: WithoutDraft | None, parent: QWidget | None = None
    ) -> None:
        self._without = without
        self.gain = Gain("")
        super().__init__(tr("What drafting brings"), sight, parent)
        self.setToolTip(explained(tr("Draft")))

    def refresh(self) -> None:
        """Look at the answer anew."""
        sight, without, verdict = self.sight, self._without, self.sight.verdict
        note = tr("not measured")
        if sight.live:
            note = tr("compared after the answer")
        elif without is not None and sight.kept is None:
            note = without.note
            # What is measured takes the CPU: no comparison is shown meanwhile.
            verdict = None if without.status.measuring_done is not None else verdict
        self.gain = gain_of(sight.tally, sight.timeline.shares, verdict, sight.mode, note)
        if sight.tally is None and sight.whose.at is not None:
            why = tr("This answer was edited or imported, or its rounds were not kept.")
            self.gain = Gain(tr("Not measured"), why=why)
        super().refresh()

    def describe(self) -> str:
        """See `Gain.words`."""
        return sentences(self.sight.whose.words, self.gain.words)

    def table(self) -> Table:
        """Return headline, speeds and counts."""
        rows = [
            (tr("Answer"), self.sight.whose.words),
            (tr("What drafting brings"), self.gain.figure),
            *((bar.name, bar.value) for bar in self.gain.bars),
            (tr("Verifications"), self.gain.counts),
        ]
        return Table(self.accessibleName(), (tr("Item"), tr("Value")), rows)

    # -- the picture -----------------------------------------------------------------------

    def height_for(self, room: float) -> float:
        """Texts and bars above each other, or side by side where there is room."""
        bars = len(self.gain.bars) * self._bar_height
        if room >= _BESIDE:
            return max(self._texts((room - _BETWEEN) / 2), bars)
        return self._texts(room) + bars

    @property
    def _bar_height(self) -> float:
        return self.small_metrics.height() + 2 + _BAR + _GAP

    def _parts(self) -> list[tuple[str, QFont, bool]]:
        """Texts below the headline, and which of them are muted."""
        parts = [(self.gain.counts, self.font(), False), (self.gain.why, self.small, True)]
        return [each for each in parts if each[0]]

    def _texts(self, room: float) -> float:
        wrapped = sum(_height(text, font, room) + 4 for text, font, _ in self._parts())
        whose = (self.small_metrics.height() + 2) * len(self.sight.whose.lines)
        return whose + _height(self.gain.figure, self.headline, room) + 4 + wrapped

    def paint(self, painter: QPainter) -> None:
        """Draw texts and bars."""
        beside = self.room >= _BESIDE
        width = (self.room - _BETWEEN) / 2 if beside else self.room
        top = self._paint_head(painter, width)
        if beside:
            area = QRectF(width + _BETWEEN, 0, width, self._bar_height)
            space = self.height_for(self.room) - len(self.gain.bars) * self._bar_height
            area.translate(0, max(space / 2, 0))
        else:
            area = QRectF(0, top, width, self._bar_height)
            top += len(self.gain.bars) * self._bar_height
        most = max((bar.tokens_per_s or 0.0 for bar in self.gain.bars), default=0.0)
        for place, bar in enumerate(self.gain.bars):
            self._paint_bar(painter, area, bar, most, first=not place)
            area.translate(0, self._bar_height)
        tokens = current()
        for text, font, muted in self._parts():
            painter.setFont(font)
            painter.setPen(QColor(tokens.muted if muted else tokens.text))
            height = _height(text, font, width)
            painter.drawText(QRectF(0, top, width, height), _WRAPPED, text)
            top += height + 4

    def _paint_head(self, painter: QPainter, width: float) -> float:
        """Draw whose answer it is and the headline; return where they end."""
        tokens, top = current(), 0.0
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.muted))
        for text in self.sight.whose.lines:
            line = QRectF(0, top, width, self.small_metrics.height())
            elided = self.small_metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, width)
            painter.drawText(line, _LEFT, elided)
            top = line.bottom() + 2
        painter.setFont(self.headline)
        painter.setPen(QColor(tokens.text))
        line = QRectF(0, top, width, _height(self.gain.figure, self.headline, width))
        painter.drawText(line, _WRAPPED, self.gain.figure)
        return line.bottom() + 4

    def _paint_bar(
        self, painter: QPainter, area: QRectF, bar: SpeedBar, most: float, *, first: bool
    ) -> None:
        tokens = current()
        line = QRectF(area.left(), area.top(), area.width(), self.small_metrics.height())
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.text if first else tokens.muted))
        painter.drawText(line, _LEFT, bar.name)
        room = line.width() - self.small_metrics.horizontalAdvance(bar.name) - _GAP
        painter.drawText(line, _RIGHT, shortened(bar.value, self.small, room))
        track = QRectF(area.left(), round(line.bottom() + 2), area.width(), _BAR)
        painter.fillRect(track, QColor(tokens.sunken))
        if bar.tokens_per_s and most:
            track.setWidth(round(track.width() * bar.tokens_per_s / most))
            painter.fillRect(track, QColor(tokens.accent if first else tokens.border_strong))


def _height(text: str, font: QFont, width: float) -> float:
    room = QRectF(0, 0, width, 10_000)
    return QFontMetricsF(font).boundingRect(room, int(_WRAPPED), text).height()
