"""The timeline: a draft lane above a verify lane, so that overlap and waiting can be seen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from app.performance import wording
from app.performance.model import PerformanceModel
from app.performance.painted_view import PaintedView, blend, hatch
from app.performance.timeline import Block, Lane, overlaps
from app.theme.theme import current
from app.theme.tokens import Tokens

_LANE = 20
_LANE_GAP = 6
_METER = 6
"""Height of the little bar that shows a round's accepted share."""


class TimelineView(PaintedView):
    """The newest rounds to scale: draft hatched, verification solid, plain rounds outlined.

    Below each round stand accepted/drafted and a bar, solid as far as tokens were accepted and
    hollow for the rejected rest. Where both lanes work at once the ground between is tinted.
    """

    def __init__(self, model: PerformanceModel, parent: QWidget | None = None) -> None:
        super().__init__("Timeline of drafting and verifying", parent)
        self._model = model

    def height_for(self, width: int) -> int:  # noqa: ARG002
        """Header, two lanes, the rounds' bars and counts, the axis."""
        lanes = 2 * _LANE + _LANE_GAP
        return round(self.header_height + lanes + 6 + _METER + 2 * self.small_metrics.height() + 6)

    def describe(self) -> str:
        """The newest round, and where the time goes."""
        model = self._model
        sentence = wording.where_time_goes(model.timeline, model.tally)
        if not model.timeline.rounds:
            return sentence
        return f"{sentence} {wording.one_round(model.timeline.rounds[-1])}."

    @property
    def _left(self) -> float:
        return max(map(self.small_metrics.horizontalAdvance, ("Draft", "Verify"))) + 8

    def _lane_rect(self, lane: Lane) -> QRectF:
        top = self.header_height + (0 if lane is Lane.DRAFT else _LANE + _LANE_GAP)
        return QRectF(self._left, top, self.width() - self._left, _LANE)

    def event(self, event: QEvent) -> bool:
        """Explain the round under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            for lane in Lane:
                rect = self._lane_rect(lane)
                if rect.contains(QPointF(event.pos())):
                    x = event.pos().x() - rect.left()
                    block = self._model.timeline.block_at(x, lane, rect.width())
                    text = wording.one_round(block.round) if block else ""
                    QToolTip.showText(event.globalPos(), text, self)
                    return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw tracks, blocks, then what each round brought."""
        tokens = current()
        timeline = self._model.timeline
        painter = QPainter(self)
        shown = f"last {wording.span(timeline.span)}" if timeline.rounds else ""
        self.paint_header(painter, "Timeline", "", shown)
        draft, verify = (self._lane_rect(lane) for lane in Lane)
        blocks = timeline.blocks(draft.width())
        self._paint_tracks(painter, tokens, draft, verify)
        for left, right in overlaps(blocks):
            band = QRectF(
                draft.left() + left, draft.top(), right - left, verify.bottom() - draft.top()
            )
            painter.fillRect(band, blend(tokens.warning, tokens.sunken, 0.28))
        for block in blocks:
            self._paint_block(painter, tokens, block, draft if block.lane is Lane.DRAFT else verify)
        self._paint_outcomes(painter, tokens, blocks, verify)
        if blocks:
            self._paint_axis(painter, tokens, verify)
        painter.end()

    def _paint_tracks(
        self, painter: QPainter, tokens: Tokens, draft: QRectF, verify: QRectF
    ) -> None:
        painter.setFont(self.small)
        for rect, name in ((draft, "Draft"), (verify, "Verify")):
            painter.fillRect(rect, QColor(tokens.sunken))
            painter.setPen(QColor(tokens.muted))
            label = QRectF(0, rect.top(), self._left, rect.height())
            painter.drawText(label, Qt.AlignmentFlag.AlignVCenter, name)

    def _paint_block(self, painter: QPainter, tokens: Tokens, block: Block, lane: QRectF) -> None:
        left = lane.left() + block.left
        # A hair of space tells neighbours apart; the shortest work is still seen.
        width = max(block.right - block.left - 1, 1.0)
        rect = QRectF(left, lane.top() + 1, width, lane.height() - 2)
        outlined = rect.adjusted(0.5, 0.5, -0.5, -0.5)
        if block.lane is Lane.DRAFT:
            colour = QColor(tokens.draft)
            painter.fillRect(rect, blend(tokens.draft, tokens.sunken, 0.25))
            painter.fillRect(rect, hatch(colour))
        elif block.plain:
            colour = QColor(tokens.verify)
            painter.fillRect(rect, blend(tokens.verify, tokens.sunken, 0.12))
        else:
            painter.fillRect(rect, QColor(tokens.verify))
            return
        if width < 3:
            painter.fillRect(rect, colour)
            return
        painter.setPen(QPen(colour, 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(outlined)

    def _paint_outcomes(
        self, painter: QPainter, tokens: Tokens, blocks: list[Block], verify: QRectF
    ) -> None:
        top = verify.bottom() + 6
        free_from = -1.0
        for block in blocks:
            if block.lane is not Lane.VERIFY:
                continue
            left, width = verify.left() + block.left, max(block.right - block.left - 1, 1.0)
            done = block.round
            if done.drafted:
                share = width * done.accepted / done.drafted
                painter.setPen(QPen(QColor(tokens.muted), 1))
                painter.drawRect(QRectF(left + 0.5, top + 0.5, max(width - 1, 0), _METER - 1))
                painter.fillRect(QRectF(left, top, share, _METER), QColor(tokens.success))
            text = f"{done.accepted}/{done.drafted}" if done.drafted else "–"
            needed = self.small_metrics.horizontalAdvance(text)
            text_left = min(left + width / 2 - needed / 2, verify.right() - needed)
            if text_left >= max(free_from, self._left - 2):
                painter.setPen(QColor(tokens.text if done.drafted else tokens.muted))
                line = top + _METER + 2 + self.small_metrics.ascent()
                painter.drawText(QPointF(text_left, line), text)
                free_from = text_left + needed + 4

    def _paint_axis(self, painter: QPainter, tokens: Tokens, verify: QRectF) -> None:
        span = self._model.timeline.span
        top = verify.bottom() + 6 + _METER + 2 + self.small_metrics.height()
        below = QRectF(verify.left(), top, verify.width(), self.small_metrics.height())
        painter.setPen(QColor(tokens.muted))
        for text, side in (
            (f"−{wording.span(span)}", Qt.AlignmentFlag.AlignLeft),
            (f"−{wording.span(span / 2)}", Qt.AlignmentFlag.AlignHCenter),
            ("0", Qt.AlignmentFlag.AlignRight),
        ):
            painter.drawText(below, side, text)
