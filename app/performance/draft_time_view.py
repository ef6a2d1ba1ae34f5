"""View of the draft's time: useful, wasted, undecided, idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.sight import Sight
from app.performance.tables import of_draft_time
from app.performance.wording import DraftPart
from app.theme.theme import current
from app.theme.tokens import Tokens
from app.widgets.painted import blend, hatch
from app.widgets.table import Table
from engine.language import tr

_BAR = 14
_SWATCH = 10
_BEHIND_SWATCH = 5
_BETWEEN = 14


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the legend: where it stands, in pixels, and on which line."""

    part: DraftPart
    words: str
    left: float
    line: int


class DraftTimeView(PaintedView):
    """One bar for all the time since the first round, and a legend with the shares below it.

    Useful time is solid, wasted time hatched, undecided time outlined; idle time is the ground.
    """

    def __init__(self, sight: Sight, parent: QWidget | None = None) -> None:
        super().__init__(tr("The draft's time"), sight, parent)
        self.setToolTip(
            tr(
                "Useful: some drafted tokens were accepted. Wasted: none was. Undecided: not "
                "verified yet. Idle: the draft waited."
            )
        )

    def height_for(self, room: float) -> float:
        """Header, bar, and as many lines of legend as it takes; one line without a draft."""
        legend = self._legend(room)
        lines = legend[-1].line + 1 if legend else 1
        bar = _BAR + 4 if legend else 0
        return self.header_height + bar + lines * self.small_metrics.height()

    def describe(self) -> str:
        """See `wording.draft_time`."""
        return wording.draft_time(self.sight.timeline.shares)

    def table(self) -> Table:
        """See `tables.of_draft_time`."""
        return of_draft_time(self.accessibleName(), self.sight.timeline.shares)

    def _legend(self, room: float) -> list[_Entry]:
        found: list[_Entry] = []
        left, line = 0.0, 0
        for part, share in wording.draft_parts(self.sight.timeline.shares):
            words = f"{part.words} {wording.percent(share)}"
            width = _SWATCH + _BEHIND_SWATCH + self.small_metrics.horizontalAdvance(words)
            if left and left + width > room:
                left, line = 0.0, line + 1
            found.append(_Entry(part, words, left, line))
            left += width + _BETWEEN
        return found

    def paint(self, painter: QPainter) -> None:
        """Draw the bar and its legend, or say that there is nothing to show."""
        tokens = current()
        parts = wording.draft_parts(self.sight.timeline.shares)
        self.paint_title(painter, tr("The draft's time"), "", 0)
        top = self.header_height
        if not parts:
            self.paint_note(painter, self.describe())
            return
        self._paint_bar(painter, QRectF(0, top, self.room, _BAR), parts)
        self._paint_legend(painter, tokens, top + _BAR + 4)

    def _paint_bar(
        self, painter: QPainter, bar: QRectF, parts: Sequence[tuple[DraftPart, float]]
    ) -> None:
        tokens = current()
        edges = [round(bar.width() * each) for each in accumulate(share for _, share in parts)]
        for (part, _), left, right in zip(parts, [0, *edges], edges, strict=False):
            if right > left:
                _fill(painter, tokens, part, QRectF(left, bar.top(), right - left, bar.height()))

    def _paint_legend(self, painter: QPainter, tokens: Tokens, top: float) -> None:
        painter.setFont(self.small)
        height = self.small_metrics.height()
        for entry in self._legend(self.room):
            line = top + entry.line * height
            swatch = QRectF(entry.left, round(line + (height - _SWATCH) / 2), _SWATCH, _SWATCH)
            _fill(painter, tokens, entry.part, swatch)
            painter.setPen(QColor(tokens.text))
            base = line + self.small_metrics.ascent()
            painter.drawText(QPointF(swatch.right() + _BEHIND_SWATCH, base), entry.words)


def _fill(painter: QPainter, tokens: Tokens, part: DraftPart, area: QRectF) -> None:
    """The look of a part: never by colour alone."""
    frame = QColor(tokens.border_strong if part is DraftPart.IDLE else tokens.draft)
    match part:
        case DraftPart.USEFUL:
            painter.fillRect(area, frame)
            return
        case DraftPart.WASTED:
            painter.fillRect(area, blend(tokens.draft, tokens.sunken, 0.15))
            painter.fillRect(area, hatch(frame))
        case _:
            painter.fillRect(area, QColor(tokens.sunken))
    if area.width() >= _SWATCH / 2:
        painter.setPen(QPen(frame, 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))
