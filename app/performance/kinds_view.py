"""Accepted by kind of text: code is guessed more easily than prose, or the other way round."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.sight import Sight
from app.performance.written import Counts, KindCount
from app.theme.theme import current
from app.widgets.painted import hatch
from app.widgets.table import Table
from engine.language import later, number, sentences, tr, tr_count
from engine.model.text.kinds_of_text import TextKind

_BAR = 12
_GAP = 8
_WIDEST_NAME = 160
_NONE = KindCount()
_NAMES = {
    TextKind.PROSE: later("Prose"),
    TextKind.CODE: later("Code"),
    TextKind.LIST: later("Lists and tables"),
    TextKind.MATHS: later("Formulas"),
    TextKind.THINKING: later("Thinking"),
}
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class KindsView(PaintedView):
    """A bar for each kind in this answer; a line in it for all answers of the model so far."""

    def __init__(self, sight: Sight, parent: QWidget | None = None) -> None:
        super().__init__(tr("Accepted by kind of text"), sight, parent)

    def height_for(self, room: float) -> float:  # noqa: ARG002
        """Header and a line for each kind; one line where there is nothing to count."""
        lines = max(len(self._kinds), 1)
        return self.header_height + lines * self._line + (self._legend if self._kinds else 0)

    @property
    def _line(self) -> float:
        return max(self.small_metrics.height(), _BAR) + _GAP

    @property
    def _legend(self) -> float:
        return self.small_metrics.height()

    # -- what is counted -------------------------------------------------------------------

    @property
    def _here(self) -> Counts:
        return self.sight.written.kinds.counts

    @property
    def _before(self) -> Counts:
        """All answers of the model that ended; nothing where this is the only one."""
        kinds = self.sight.model.kinds
        tally = self.sight.tally
        ended = tally is not None and tally.stats is not None
        return kinds.counts if kinds.answers > ended else {}

    @property
    def _kinds(self) -> list[TextKind]:
        here = self._here
        return [kind for kind in TextKind if kind in here and here[kind].drafted]

    def describe(self) -> str:
        """The accepted share and length of each kind."""
        here = self._here
        if not self._kinds:
            return tr("No drafted tokens to count.")
        return sentences(
            *(
                tr("{kind}: {share} accepted, acceptance length {length}.").format(
                    kind=tr(_NAMES[kind]),
                    share=wording.percent(here[kind].accepted_share),
                    length=wording.length(here[kind].acceptance_length),
                )
                for kind in self._kinds
            )
        )

    def table(self) -> Table:
        """Return a table of this answer and all of the model."""
        here, before = self._here, self._before
        rows = tuple(
            (
                tr(_NAMES[kind]),
                number(here.get(kind, _NONE).tokens),
                wording.percent(here.get(kind, _NONE).accepted_share),
                wording.length(here.get(kind, _NONE).acceptance_length),
                wording.percent(before.get(kind, _NONE).accepted_share),
                wording.length(before.get(kind, _NONE).acceptance_length),
            )
            for kind in TextKind
            if kind in here or kind in before
        )
        columns = (
            tr("Kind of text"),
            tr("Tokens"),
            tr("Accepted"),
            tr("Acceptance length"),
            tr("Accepted, all answers"),
            tr("Acceptance length, all answers"),
        )
        return Table(self.accessibleName(), columns, rows)

    # -- painting --------------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """Draw the bars, or say that there is nothing to count."""
        kinds = self._kinds
        note = tr("% of drafted tokens") if kinds else ""
        self.paint_title(painter, tr("Accepted by kind of text"), note, 0)
        if not kinds:
            self.paint_note(painter, tr("No drafted tokens to count"))
            return
        painter.setFont(self.small)
        names = max(self.small_metrics.horizontalAdvance(tr(_NAMES[kind])) for kind in kinds)
        names = min(names, _WIDEST_NAME) + 10
        counts, before = self._here, self._before
        said = {kind: self._numbers(counts[kind]) for kind in kinds}
        numbers = max(self.small_metrics.horizontalAdvance(each) for each in said.values()) + 10
        top = self.header_height
        for kind in kinds:
            row = QRectF(0, top, self.room, self._line - _GAP)
            painter.setPen(QColor(current().text))
            name = self.small_metrics.elidedText(
                tr(_NAMES[kind]), Qt.TextElideMode.ElideRight, names - 10
            )
            painter.drawText(row, _LEFT, name)
            painter.drawText(row, _RIGHT, said[kind])
            bar = row.adjusted(names, (row.height() - _BAR) / 2, -numbers, 0)
            bar.setHeight(_BAR)
            self._paint_bar(painter, bar, counts[kind], before.get(kind, _NONE))
            top += self._line
        painter.setPen(QColor(current().muted))
        legend = QRectF(0, top - _GAP / 2, self.room, self._legend)
        painter.drawText(legend, _LEFT, self._legend_words(bool(before)))

    def _numbers(self, count: KindCount) -> str:
        return tr("{share} · length {length} · {tokens}").format(
            share=wording.percent(count.accepted_share),
            length=wording.length(count.acceptance_length),
            tokens=tr_count("{n} token", "{n} tokens", count.tokens),
        )

    def _legend_words(self, several: bool) -> str:
        if several:
            return tr("The upright line: all answers of this model since the start")
        return tr("This answer only")

    def _paint_bar(
        self, painter: QPainter, bar: QRectF, here: KindCount, before: KindCount
    ) -> None:
        tokens = current()
        share = here.accepted_share or 0.0
        bar = QRectF(round(bar.left()), round(bar.top()), round(bar.width()), bar.height())
        split = round(bar.width() * share)
        painter.fillRect(bar, QColor(tokens.sunken))
        painter.fillRect(bar.adjusted(split, 0, 0, 0), hatch(QColor(tokens.border_strong)))
        painter.fillRect(bar.adjusted(0, 0, split - bar.width(), 0), QColor(tokens.verify))
        painter.setPen(QPen(QColor(tokens.border_strong), 1))
        painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5))
        if before.accepted_share is not None:
            x = bar.left() + round(bar.width() * before.accepted_share)
            painter.fillRect(QRectF(x - 1, bar.top() - 3, 2, bar.height() + 6), QColor(tokens.text))
