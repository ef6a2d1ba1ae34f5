"""Paints the tokens of a round: accepted ones ticked, rejected ones struck through."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from app.performance.chip_layout import ChipRow, Measures, PlacedToken, TokenDisplay
from app.performance.tokens import Fate
from app.theme.theme import current
from app.widgets.painted import blend, hatch
from engine.language import number

_RADIUS = 4.0
_TICK = 8.0
_TEXT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_NOTE = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ChipPainter:
    """Lends a painter for one picture."""

    def __init__(
        self, painter: QPainter, mode: TokenDisplay, font: QFont, small: QFont, measures: Measures
    ) -> None:
        self._painter, self._trace, self._measures = painter, mode is TokenDisplay.TRACE, measures
        self._font, self._small = font, small
        self._struck = QFont(font)
        self._struck.setStrikeOut(True)
        self._metrics = QFontMetricsF(font)
        self._baseline = (measures.line - self._metrics.height()) / 2 + self._metrics.ascent()
        tokens = current()
        self._texts = {
            Fate.ACCEPTED: QColor(tokens.text),
            Fate.OWN: QColor(tokens.text),
            Fate.REJECTED: QColor(tokens.muted),
        }
        self._accepted = blend(tokens.verify, tokens.surface, 0.2)
        self._own = QColor(tokens.surface)
        self._border = QPen(QColor(tokens.border_strong), 1)
        self._verify = QPen(QColor(tokens.verify), 1.6)
        self._draft = QPen(QColor(tokens.draft), 1.6)
        self._rejected = blend(tokens.draft, tokens.surface, 0.12)
        self._hatch = hatch(blend(tokens.draft, tokens.surface, 0.28))
        self._muted = QColor(tokens.muted)
        self._accent = QPen(QColor(tokens.accent), 2)
        self._frame = QPen(QColor(tokens.muted), 1)
        self._shade = QColor(tokens.text)
        self._shade.setAlpha(18)

    def paint(self, row: ChipRow) -> None:
        """Paint a round."""
        if self._trace:
            self._number(row)
        for chip in row.chips:
            self._chip(chip)

    def frame_round(self, row: ChipRow) -> None:
        """Mark the round that is pointed at."""
        painter = self._painter
        if self._trace:
            height = row.bottom - row.top
            width = row.chips[0].end if row.chips else self._measures.gutter
            painter.fillRect(QRectF(0, row.top, width, height), self._shade)
            painter.fillRect(QRectF(0, row.top, 3, height), self._accent.color())
            return
        for chip in row.chips:
            painter.fillRect(self._box(chip), self._shade)
            bottom = self._box(chip).bottom()
            painter.setPen(self._accent)
            painter.drawLine(QLineF(chip.left, bottom, chip.left + chip.width, bottom))

    def frame(self, chip: PlacedToken, *, strong: bool) -> None:
        """Mark a token."""
        painter = self._painter
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self._accent if strong else self._frame)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(self._box(chip), _RADIUS, _RADIUS)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _box(self, chip: PlacedToken) -> QRectF:
        inset = 3.0 if self._trace else 1.0
        height = self._measures.line - 2 * inset
        return QRectF(chip.left + 0.5, chip.y + inset + 0.5, chip.width - 1, height)

    def _number(self, row: ChipRow) -> None:
        painter, done, measures = self._painter, row.round.done, self._measures
        painter.setFont(self._small)
        painter.setPen(self._muted)
        height = measures.line
        painter.drawText(QRectF(8, row.top, measures.gutter, height), _TEXT, number(done.index))
        if done.drafted:
            share = f"{done.accepted}/{done.drafted}"
            painter.drawText(QRectF(0, row.top, measures.gutter - 10, height), _NOTE, share)

    def _chip(self, chip: PlacedToken) -> None:
        painter, fate = self._painter, chip.token.fate
        box = self._box(chip)
        if self._trace:
            self._ground(box, fate)
        elif fate is Fate.ACCEPTED:
            painter.fillRect(box, self._accepted)
            painter.fillRect(
                QRectF(box.left(), box.bottom() - 1, box.width(), 2), self._verify.color()
            )
        painter.setPen(self._texts[fate])
        painter.setFont(self._struck if fate is Fate.REJECTED else self._font)
        mark = self._measures.mark if self._trace and fate is not Fate.OWN else 0.0
        pad = self._measures.pad if self._trace else 0.0
        shown = chip.shown
        if chip.clipped:
            width = chip.width - 2 * pad - mark
            shown = self._metrics.elidedText(shown, Qt.TextElideMode.ElideRight, width)
        painter.drawText(QPointF(chip.left + pad + mark, chip.y + self._baseline), shown)
        if mark:
            self._mark(QPointF(box.left() + self._measures.pad, box.center().y()), fate)

    def _ground(self, box: QRectF, fate: Fate) -> None:
        painter = self._painter
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if fate is Fate.OWN:
            painter.setPen(self._border)
            painter.setBrush(self._own)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._accepted if fate is Fate.ACCEPTED else self._rejected)
        painter.drawRoundedRect(box, _RADIUS, _RADIUS)
        if fate is Fate.REJECTED:
            painter.setBrush(self._hatch)
            painter.drawRoundedRect(box, _RADIUS, _RADIUS)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _mark(self, left: QPointF, fate: Fate) -> None:
        """Draw a tick or a cross: not every font has them."""
        painter = self._painter
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        x, y = left.x(), left.y()
        if fate is Fate.ACCEPTED:
            painter.setPen(self._verify)
            corner = QPointF(x + _TICK * 0.38, y + _TICK * 0.35)
            painter.drawLine(QPointF(x, y), corner)
            painter.drawLine(corner, QPointF(x + _TICK, y - _TICK * 0.4))
        else:
            painter.setPen(self._draft)
            half = _TICK * 0.4
            middle = x + _TICK * 0.45
            painter.drawLine(QPointF(middle - half, y - half), QPointF(middle + half, y + half))
            painter.drawLine(QPointF(middle - half, y + half), QPointF(middle + half, y - half))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
