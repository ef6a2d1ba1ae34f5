"""A column of very many rows, of which only those in or near sight are widgets.

What the reader looks at stays where it is, whatever happens around it: the column holds on to the
row at the top of the view and to the distance from there (`Anchor`), or to the very end. Where that
row's text is laid out, the column holds on to its first line in sight (`TextAnchor`): however
often the row is laid out anew, and however long that takes, the line stays. Heights of rows that
were never seen are estimates; they settle out of sight.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import cast

from PySide6.QtCore import QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from app.chat.messages.message_row import MessageRow, TextAnchor
from app.chat.messages.row_heights import Anchor, RowHeights
from app.theme.theme import current
from app.theme.tokens import COLUMN, RADIUS

SIDE = 24
TOP = 28
BOTTOM = 20
_NEAR = 8
"""Pixels from the end that still count as the end."""
_KEPT = 40
"""Widgets that stay for those who scroll back."""
_AHEAD, _BEHIND = 10, 3
"""Rows made ready out of sight, in the direction of reading and against it."""
_NOW_S = 0.003
"""Time for layout before the next frame is painted."""
_OPEN_S = 0.015
"""Time for layout where all in sight is new: a late frame is better than one without words."""
_CATCH_UP_S = 0.003
"""Time for layout in one turn of the event loop while something in sight is missing."""
_SLICE_S = 0.002
"""Time for layout in one turn of the event loop while nothing in sight is missing."""
_REFLOW_MS = 400
_RING = 9
"""Space between a row and the ring around it."""


class Column(QAbstractScrollArea):
    """Shows rows below each other. Subclasses make them."""

    following_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Window)
        self._heights = RowHeights()
        self._rows: OrderedDict[int, MessageRow] = OrderedDict()
        self._unready: set[int] = set()
        """Rows whose widget is not laid out, or not all of it, or for another width."""
        self.following = True
        self._anchor = Anchor(0, -TOP)
        self._mark: TextAnchor | None = None
        self._laid_width = 0
        self._y = 0
        self._forward = True
        self._settling = self._arranging = False
        self._paints = True
        """True if there was anything beside widgets to be painted."""
        self._ring: int | None = None
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._go_on)
        self._reflow = QTimer(self, singleShot=True, interval=_REFLOW_MS)
        self._reflow.timeout.connect(self.estimate_anew)
        bar = self.verticalScrollBar()
        holder = cast("QWidget", bar.parentWidget())
        holder.setAutoFillBackground(True)  # opaque: the bar's handle moves with every line
        bar.setSingleStep(48)
        bar.valueChanged.connect(self._scrolled)
        bar.sliderReleased.connect(self._settle)

    # -- what subclasses say -------------------------------------------------------------------

    def make_row(self, index: int) -> MessageRow:
        """The widget for a row."""
        raise NotImplementedError

    def estimates(self, first: int, width: int) -> Iterable[int]:
        """About how high the rows from `first` on are."""
        raise NotImplementedError

    def paint_missing(self, painter: QPainter, index: int, area: QRect) -> None:
        """Paint a row that is not laid out yet, where it will be."""

    def row_made(self, index: int) -> None:
        """Take note of a new widget for a row, in which nothing is laid out yet."""

    def row_ready(self, index: int) -> None:
        """Take note that all of a row is laid out now."""

    # -- what is there -------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        """Return the number of rows, with or without a widget."""
        return len(self._heights)

    @property
    def live_rows(self) -> list[tuple[int, MessageRow]]:
        """The rows that are widgets, from top to bottom."""
        return sorted(self._rows.items())

    def row(self, index: int) -> MessageRow:
        """The widget of a row, made now if there is none."""
        if index not in self._rows:
            self._create(index)
            self._turn.start()
        return self._rows[index]

    @property
    def settled(self) -> bool:
        """True if everything in and near sight is laid out."""
        wanted = self._wanted()
        ready = all(self.is_ready(each) and self._rows[each].whole for each in wanted)
        return ready and not self._turn.isActive()

    def is_ready(self, index: int) -> bool:
        """Return whether all of a row is laid out."""
        return index in self._rows and index not in self._unready

    def visible_range(self) -> range:
        """The rows in sight."""
        if not len(self._heights):
            return range(0)
        y = self._wanted_y() - TOP
        last = self._heights.row_at(y + self.viewport().height() - 1)
        return range(self._heights.row_at(y), last + 1)

    def row_top(self, index: int) -> int:
        """Return where a row begins, from the top of the view."""
        return TOP + self._heights.top(index) - self._wanted_y()

    # -- changes -------------------------------------------------------------------------------

    def reset_rows(self) -> None:
        """Make all rows anew and show the end."""
        self._drop_from(0)
        self._heights = RowHeights(self.estimates(0, self._width()))
        self._set_following(following=True)
        self._fill(_OPEN_S)

    def replace_rows(self, first: int) -> None:
        """The rows from `first` on are others now; those before stay where they are."""
        y = self._wanted_y()
        keep = min(self._heights.row_at(y - TOP), first) if first else 0
        offset = y - TOP - self._heights.top(keep) if self.row_count else -TOP
        self._drop_from(first)
        self._heights.truncate(first)
        self._heights.extend(self.estimates(first, self._width()))
        self._hold(Anchor(keep, offset))
        self._fill(_OPEN_S)

    def add_rows(self) -> None:
        """Take in more rows at the end."""
        self._heights.extend(self.estimates(self.row_count, self._width()))
        self._fill(_NOW_S)

    def jump_to_end(self) -> None:
        """Show the end, and follow it."""
        self._set_following(following=True)
        self._fill(_OPEN_S)

    def show_row(self, index: int, offset: int) -> None:
        """Put the place `offset` pixels below the top of a row to the top of the view."""
        self._set_following(following=False)
        self._hold(Anchor(index, offset))
        self._fill(_OPEN_S)

    def put_row(self, index: int, offset: int, y: int) -> None:
        """Scroll, as far as possible, until what is `offset` below the top of a row is at `y`."""
        self.show_row(index, offset - y)
        self._set_following(following=self._wanted_y() >= self._end() - _NEAR)

    def make_ready(self, index: int) -> None:
        """Lay out a row before others, as far as a moment allows."""
        if not self.is_ready(index):
            self._load(index, time.perf_counter() + _OPEN_S)
            self._fill(_SLICE_S)

    def scroll_into_view(self, index: int) -> None:
        """Scroll as little as needed to see a row, or its beginning."""
        top, height = self.row_top(index), self._heights[index]
        room = self.viewport().height() - BOTTOM
        if top < 0:
            self.show_row(index, -TOP)
        elif top + height > room:
            self.show_row(index, -max(room - height, TOP))

    def reflow(self) -> None:
        """Width or font have changed: every height is new, the text at the top stays at the top."""
        self._laid_width = self._width()
        self._reflow.start()
        self._unready.update(self._rows)
        self._fill(_NOW_S)

    def estimate_anew(self) -> None:
        """Estimate the rows that are no widgets anew, after a change of width or font."""
        heights = RowHeights(self.estimates(0, self._width()))
        for index in self._rows:
            heights.measure(index, self._heights[index])
        self._heights = heights
        self._fill(_SLICE_S)

    # -- events --------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lay out the rows in sight at once for another width."""
        super().resizeEvent(event)
        if self._width() != self._laid_width:
            self.reflow()
        else:
            self._fill(_NOW_S)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Rows are laid out only where they can be seen."""
        super().showEvent(event)
        self._unready.update(self._rows)
        self._fill(_OPEN_S)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Rows that are still missing."""
        if not self._has_to_paint():
            return
        painter = QPainter(self.viewport())
        self._paint_ring(painter)
        for index in self.visible_range():
            row = self._rows.get(index)
            if row is not None and index not in self._unready:
                continue
            area = QRect(self._left(), self.row_top(index), self._width(), self._heights[index])
            if row is not None and row.isVisible():
                area.setTop(area.top() + row.height())
            if area.intersects(event.rect()):
                self.paint_missing(painter, index, area)
        painter.end()

    def set_ring(self, index: int | None) -> None:
        """Show which row the keyboard is in."""
        if index != self._ring:
            self._ring = index
            self.viewport().update()

    def _paint_ring(self, painter: QPainter) -> None:
        row = None if self._ring is None else self._rows.get(self._ring)
        if row is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(current().accent), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        area = QRectF(row.geometry()).adjusted(-_RING, -_RING, _RING, -2)
        painter.drawRoundedRect(area, RADIUS, RADIUS)

    # -- scrolling -----------------------------------------------------------------------------

    def _width(self) -> int:
        return max(min(COLUMN, self.width() - 2 * SIDE), 80)

    def _left(self) -> int:
        # The scroll bar takes its room from the right margin: the column stays where it is.
        return max(SIDE, (self.width() - COLUMN) // 2)

    def _end(self) -> int:
        """The largest scroll position."""
        whole = TOP + self._heights.total + BOTTOM
        return max(whole - self.viewport().height(), 0)

    def _wanted_y(self) -> int:
        end = self._end()
        if self.following or not self.row_count:
            return end
        return min(max(TOP + self._heights.place(self._anchor), 0), end)

    def _scrolled(self, value: int) -> None:
        """The reader has moved the view."""
        if self._settling:
            return
        bar, end = self.verticalScrollBar(), self._end()
        # While the handle is held its range stands still, whatever settles meanwhile.
        y = round(value * end / max(bar.maximum(), 1)) if bar.isSliderDown() else value
        self._forward = y >= self._y
        if self.row_count:
            self._hold(self._heights.anchor_at(y - TOP))
        self._set_following(following=y >= end - _NEAR)
        self._fill(_NOW_S)

    def _set_following(self, *, following: bool) -> None:
        changed = following != self.following
        self.following = following
        if changed:
            self.following_changed.emit(following)

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802
        """Do nothing: the code that moves the bar places the rows."""

    def _make_way(self, row: MessageRow, more: int) -> None:
        """Move what is on the screen before the last row grows: only what is new is painted."""
        last = self.row_count - 1
        if row is not self._rows.get(last) or not self.is_ready(last) or self._arranging:
            return
        at_end = self.following and self._y == self._end() > 0
        if at_end and not self._paints and self.isVisible():
            self._y += more
            self.viewport().scroll(0, -more)

    def _settle(self) -> None:
        """Put the scroll bar and the rows where anchor and heights want them."""
        bar, self._y = self.verticalScrollBar(), self._wanted_y()
        if not bar.isSliderDown():
            # A bar that comes or goes resizes the view, which ends up here again.
            outer, self._settling = self._settling, True
            bar.setRange(0, self._end())
            bar.setPageStep(self.viewport().height())
            bar.setValue(self._y)
            self._settling = outer
        left, width = self._left(), self._width()
        for index, row in self._rows.items():
            row.move(left, TOP + self._heights.top(index) - self._y)
            if row.width() != width and index not in self._unready:
                self._unready.add(index)
        painted, self._paints = self._paints, self._has_to_paint()
        if painted or self._paints:
            self.viewport().update()

    def _has_to_paint(self) -> bool:
        """Return whether there is anything beside widgets to be seen."""
        seen = self.visible_range()
        return self._ring is not None or not all(self.is_ready(index) for index in seen)

    def _hold(self, anchor: Anchor) -> None:
        """Hold this place at the top of the view from now on."""
        self._anchor, self._mark = anchor, None
        self._note_mark()

    def _note_mark(self) -> None:
        """Remember the first line of text in sight, for when it is laid out anew.

        The top of the view may be below the text of its row: then the next row has the line.
        """
        if self._mark is not None or self.following:
            return
        place = self._heights.place(self._anchor)
        for index in range(self._anchor.row, self.visible_range().stop):
            row = self._rows.get(index)
            if row is None or not row.whole:
                return
            offset = place - self._heights.top(index)
            self._mark = row.mark_at(offset)
            if self._mark is not None:
                self._anchor = Anchor(index, offset)
                return

    def _keep_mark(self, index: int) -> bool:
        """A row was laid out anew: the noted line stays where it is; whether rows have to move."""
        if index != self._anchor.row or self._mark is None or not self._rows[index].whole:
            return False
        before = self._anchor
        self._anchor = Anchor(index, self._rows[index].mark_y(self._mark) + self._mark.below)
        return self._anchor != before

    # -- making rows ---------------------------------------------------------------------------

    def _fill(self, seconds: float) -> None:
        """Lay out what is needed for so long, what is in sight first; go on in the next turn."""
        if not self.isVisible():
            self._settle()
            return
        until = time.perf_counter() + seconds
        missing = self._next_missing()
        while missing is not None:
            self._load(missing, until)
            if time.perf_counter() >= until:
                break
            missing = self._next_missing()
        self._note_mark()
        self._settle()
        if missing is not None:
            self._turn.start()
        self._let_go()

    def _go_on(self) -> None:
        seen = all(self.is_ready(index) for index in self.visible_range())
        self._fill(_SLICE_S if seen else _CATCH_UP_S)

    def _next_missing(self) -> int | None:
        return next((each for each in self._wanted() if not self.is_ready(each)), None)

    def _wanted(self) -> list[int]:
        """Rows to have ready: those in sight, those to come, and those that stay anyway."""
        seen = self.visible_range()
        after = range(seen.stop, min(seen.stop + _AHEAD, self.row_count))
        before = range(max(seen.start - _AHEAD, 0), seen.start)[::-1]
        near = [*after, *before[:_BEHIND]] if self._forward else [*before, *after[:_BEHIND]]
        busy = [index for index in self._unready if self._rows[index].busy]
        return [*seen, *near, *busy]

    def _create(self, index: int) -> None:
        row = self.make_row(index)
        row.setParent(self.viewport())
        row.growing.connect(lambda more: self._make_way(row, more))
        row.grown.connect(lambda: self._grew(row))
        self._rows[index] = row
        self._unready.add(index)
        self.row_made(index)
        row.move(self._left(), self.row_top(index))
        row.resize(self._width(), 1)
        row.show()

    def _load(self, index: int, until: float) -> None:
        """Lay out a row, or some more of a long one."""
        if index not in self._rows:
            self._create(index)
        row = self._rows[index]
        self._arrange(row)
        whole = row.load(until)
        height = self._arrange(row)
        if whole:
            self._unready.discard(index)
        else:
            height = max(height, self._heights[index])
        self._heights.measure(index, height)
        self._keep_mark(index)
        if whole:
            self.row_ready(index)

    def _grew(self, row: MessageRow) -> None:
        """Make room for a row that needs another height."""
        index = next((each for each, other in self._rows.items() if other is row), None)
        if index is None or self._arranging or not self.isVisible():
            return
        if index in self._unready:
            if row.busy:  # it has become so out of sight, and is wanted now
                self._turn.start()
            return
        height = self._arrange(row)
        if not row.whole:  # it is being written again: what is below waits where it was
            height = max(height, self._heights[index])
        changed = self._heights.measure(index, height)
        if self._keep_mark(index) or changed:
            self._fill(_SLICE_S)

    def _arrange(self, row: MessageRow) -> int:
        self._arranging = True
        try:
            height = row.arrange(self._width())
        finally:
            self._arranging = False
        row.resize(self._width(), height)
        return height

    def _let_go(self) -> None:
        """Drop the widgets that were out of sight for longest."""
        wanted = self._wanted()
        for index in wanted:
            if index in self._rows:
                self._rows.move_to_end(index)
        spare = len(self._rows) - max(_KEPT, len(wanted) + 2)
        if spare > 0:
            idle = [index for index, row in self._rows.items() if not row.busy]
            for index in idle[:spare]:
                self._drop(index)

    def _drop_from(self, first: int) -> None:
        for index in [each for each in self._rows if each >= first]:
            self._drop(index)

    def _drop(self, index: int) -> None:
        row = self._rows.pop(index)
        self._unready.discard(index)
        row.hide()
        row.deleteLater()

    # -- where a widget is ---------------------------------------------------------------------

    def row_holding(self, widget: QWidget | None) -> int | None:
        """The row that a widget belongs to."""
        while widget is not None and widget.parentWidget() is not self.viewport():
            widget = widget.parentWidget()
        return next((index for index, row in self._rows.items() if row is widget), None)
