"""A device's memory as two bars, now and then, with a legend of sizes."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.theme.theme import current
from app.tuning.budget.legend import (
    Entry,
    Legend,
    PlacedEntry,
    about_at,
    height_of,
    paint_legend,
)
from app.tuning.budget.wording import over_words, rows, size_words, stack_words
from app.widgets.memory_parts import MemoryPart, Stack
from app.widgets.painted import SIDE, TOP, Painted
from app.widgets.stack_bar import paint_part, paint_stack
from app.widgets.table import Table
from app.widgets.terms import explained
from engine.language import listed, tr
from engine.language.units import memory

_NOW, _THEN = 8, 18
_BETWEEN = 3
_NOTHING = Stack(0, ())


class MemoryView(Painted):
    """Shows `Stack`s; where nothing changes there is one bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Memory"), parent)
        self._sides = (0.0, 0.0)
        self._now: Stack | None = None
        self._then = _NOTHING
        self._entries = Legend()

    def show_stacks(self, name: str, now: Stack | None, then: Stack) -> None:
        """Show other memory; paints only where something changes."""
        if (name, now, then) == (self.accessibleName(), self._now, self._then):
            return
        self.setAccessibleName(name)
        self._now, self._then = now, then
        self._entries = Legend(
            Entry(_sized(part, size), partial(paint_part, part=part), explained(tr(part)))
            for part, size in rows(now, then)
        )
        self.refresh()

    def set_sides(self, left: float, right: float) -> None:
        """Room beside the bars, so that they lie below the slider's axis."""
        if self._sides != (left, right):
            self._sides = left, right
            self.refresh()

    def gutter(self) -> float:
        """Room that the names of the bars need."""
        words = (tr("Now"), tr("After"))
        return max(self.small_metrics.horizontalAdvance(each) for each in words) + 8

    def height_for(self, room: float) -> float:
        """Title, bars, legend."""
        legend = height_of(self._legend(room), self.small_metrics)
        return self.header_height + self._bars + 6 + legend

    def describe(self) -> str:
        """Return all parts with their sizes."""
        return stack_words(self.accessibleName(), self._now, self._then)

    def table(self) -> Table:
        """Return a table of all parts, now and then."""
        found = []
        for part, _ in rows(self._now, self._then):
            now = "" if self._now is None else size_words(self._now.of(part))
            found.append((tr(part), now, size_words(self._then.of(part))))
        return Table(self.accessibleName(), (tr("Part"), tr("Now"), tr("After")), tuple(found))

    def _legend(self, room: float) -> list[PlacedEntry]:
        return self._entries.within(room, self.small)

    def _areas(self) -> list[tuple[str, QRectF, Stack]]:
        """The bars that are there, with their names; a bar that is alone has none."""
        left, right = self._sides
        bar = QRectF(left, self.header_height, self.room - left - right, _THEN)
        now = self._now
        if now is None or now == self._then:
            return [("", bar.adjusted(0, 0, 0, self._bars - _THEN), self._then)]
        above = QRectF(bar)
        above.setHeight(_NOW)
        then = (tr("After"), bar.translated(0, _NOW + _BETWEEN), self._then)
        return [(tr("Now"), above, now), then]

    def paint(self, painter: QPainter) -> None:
        """Paint both bars and the legend."""
        size, over = memory(self._then.total), over_words(self._then)
        note = listed([size, over]) if over else size
        self.paint_title(painter, self.accessibleName(), note, 0)
        for name, bar, stack in self._areas():
            paint_stack(painter, bar, stack)
            if name:
                self._name(painter, bar, name)
        legend = self._legend(self.room)
        paint_legend(painter, legend, self.small, 0, self.header_height + self._bars + 6)

    @property
    def _bars(self) -> float:
        """Room for both, so that nothing jumps while somebody tries budgets."""
        return _THEN + (0 if self._now is None else _NOW + _BETWEEN)

    def _name(self, painter: QPainter, bar: QRectF, words: str) -> None:
        painter.setFont(self.small)
        painter.setPen(QColor(current().muted))
        line = QRectF(0, bar.top(), bar.left() - 8, bar.height())
        height = self.small_metrics.height()
        line = line.adjusted(0, (bar.height() - height) / 2, 0, (height - bar.height()) / 2)
        align = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(line, align, words)

    def words_at(self, place: QPointF) -> str:
        """Return the use of the memory at a place of the bars, or the meaning of a word below."""
        inside = place - QPointF(SIDE, TOP)
        for name, bar, stack in self._areas():
            if not bar.contains(inside):
                continue
            x = inside.x() - bar.left()
            for segment, left, right in stack.edges(bar.width()):
                if left <= x < right:
                    said = _sized(segment.part, size_words(segment.nbytes))
                    said = tr("{when}: {said}").format(when=name, said=said) if name else said
                    return "\n".join(filter(None, (said, explained(tr(segment.part)))))
        top = self.header_height + self._bars + 6
        return about_at(self._legend(self.room), self.small_metrics, inside, top)


def _sized(part: MemoryPart, size: str) -> str:
    return tr("{part} {size}").format(part=tr(part), size=size)
