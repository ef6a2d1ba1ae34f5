"""A bar for every mode: how fast it wrote, and how far its answers lay apart."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from app.benchmark.wording import bars_words, details, row_name, table_of
from app.theme.theme import current
from app.widgets.painted import Painted, blend
from app.widgets.table import Table
from engine.bench.modes.report import ModeRow
from engine.commands import Mode
from engine.language import listed, tr
from engine.language.units import tokens_per_s

_BAR = 16
_AFTER = 14
_CAP = 5
_BOLD = 2
_PALE = 0.45
_NEAR = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_FAR = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class BarsView(Painted):
    """Shows `ModeRow`s that have a speed, or are about to get one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Tokens per second in every mode"), parent)
        self.rows: tuple[ModeRow, ...] = ()
        self._winner: Mode | None = None
        self._under_way: Mode | None = None

    def show_rows(
        self, rows: Sequence[ModeRow], winner: Mode | None, under_way: Mode | None = None
    ) -> None:
        """Show these; paints only where something changes.

        Args:
            rows: all modes; those without a place in the picture are left out.
            winner: marked as the best.
            under_way: the one that is being measured.
        """
        shown = tuple(row for row in rows if row.same_as is None and not row.refusal)
        if (shown, winner, under_way) == (self.rows, self._winner, self._under_way):
            return
        self.rows, self._winner, self._under_way = shown, winner, under_way
        self.setAccessibleDescription(self.describe())
        self.refresh()

    def height_for(self, room: float) -> float:
        """Return the height of three lines for each mode: name and speed, bar, the rest."""
        return sum(self._height_of(row, room) for row in self.rows)

    def describe(self) -> str:
        """See `wording.bars_words`."""
        return bars_words(self.rows, self._winner)

    def table(self) -> Table:
        """See `wording.table_of`."""
        return table_of(self.rows, self.accessibleName())

    def blank(self, size: QSize) -> QPixmap:
        """Return an empty picture in the colour of the card below."""
        pixmap = super().blank(size)
        pixmap.fill(QColor(current().surface))
        return pixmap

    def paint(self, painter: QPainter) -> None:
        """Paint one mode below the other, on one scale."""
        most = max((row.highest or 0.0 for row in self.rows), default=0.0)
        top = 0.0
        for row in self.rows:
            self._paint_row(painter, row, top, most)
            top += self._height_of(row, self.room)

    def _height_of(self, row: ModeRow, room: float) -> float:
        lines = max(len(self._lines(row, room)), 1)
        return (
            self.title_metrics.height()
            + 4
            + _BAR
            + 3
            + lines * self.small_metrics.height()
            + _AFTER
        )

    def _lines(self, row: ModeRow, room: float) -> list[str]:
        """The details, broken between two of them."""
        lines: list[list[str]] = []
        for part in details(row):
            longer = listed([*lines[-1], part]) if lines else part
            if lines and self.small_metrics.horizontalAdvance(longer) <= room:
                lines[-1].append(part)
            else:
                lines.append([part])
        return [listed(parts) for parts in lines]

    def _paint_row(self, painter: QPainter, row: ModeRow, top: float, most: float) -> None:
        tokens, best = current(), row.mode is self._winner
        line = QRectF(0, top, self.room, self.title_metrics.height())
        value = self._value(row)
        wide = self.title_metrics.horizontalAdvance(value) + 12
        painter.setFont(self.title)
        painter.setPen(QColor(tokens.text))
        name = row_name(row)
        room = line.width() - wide
        elided = self.title_metrics.elidedText(name, Qt.TextElideMode.ElideRight, round(room))
        painter.drawText(line, _NEAR, elided)
        painter.drawText(line, _FAR, value)
        if best:
            self._paint_mark(painter, line, self.title_metrics.horizontalAdvance(elided) + 8, room)
        bar = QRectF(0, round(line.bottom() + 4), self.room, _BAR)
        painter.fillRect(bar, QColor(tokens.sunken))
        if row.tokens_per_s is not None and most > 0:
            self._paint_bar(painter, bar, row, most, best=best)
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.muted))
        step = self.small_metrics.height()
        below = QRectF(0, bar.bottom() + 3, self.room, step)
        for said in self._lines(row, self.room):
            painter.drawText(below, _NEAR, said)
            below.translate(0, step)

    def _value(self, row: ModeRow) -> str:
        if row.tokens_per_s is not None:
            speed = tokens_per_s(row.tokens_per_s)
            return tr("{speed} tokens/s").format(speed=speed)
        return tr("measuring") if row.mode is self._under_way else tr("waiting")

    def _paint_mark(self, painter: QPainter, line: QRectF, left: float, room: float) -> None:
        """Words beside the name of the best: colour alone tells not everybody."""
        words = tr("best here")
        width = self.small_metrics.horizontalAdvance(words) + 12
        if left + width > room:
            return
        tokens = current()
        box = QRectF(left, line.top() + 1, width, line.height() - 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.accent))
        painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.on_accent))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
        painter.setFont(self.title)

    @property
    def _pale(self) -> QColor:
        """Return the colour of all bars but the best one."""
        return blend(current().accent, current().surface, _PALE)

    def _paint_bar(
        self, painter: QPainter, area: QRectF, row: ModeRow, most: float, *, best: bool
    ) -> None:
        """The median as a bar, the slowest and the fastest answer as the ends of a line."""
        tokens = current()

        def place(speed: float | None) -> int:
            return round(area.left() + area.width() * (speed or 0.0) / most)

        bar = QRectF(area.left(), area.top(), place(row.tokens_per_s), area.height())
        painter.fillRect(bar, QColor(tokens.accent) if best else self._pale)
        middle = round(area.center().y())
        low, high = place(row.lowest), min(place(row.highest), round(area.right()) - 1)
        painter.setPen(QPen(QColor(tokens.surface), 3 * _BOLD))
        painter.drawLine(low, middle, high, middle)
        painter.setPen(QPen(QColor(tokens.text), _BOLD))
        painter.drawLine(low, middle, high, middle)
        for end in (low, high):
            painter.drawLine(end, middle - _CAP, end, middle + _CAP)
