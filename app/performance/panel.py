"""The performance panel: numbers, timeline and graphs of what the engine is doing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.performance import wording
from app.performance.controls import Controls
from app.performance.depth_view import DepthView
from app.performance.draft_time_view import DraftTimeView
from app.performance.lane_view import LaneView
from app.performance.model import Part, PerformanceModel
from app.performance.numbers_view import NumbersView
from app.performance.painted_view import PaintedView
from app.performance.sight import Sight
from app.performance.timeline_view import TimelineView
from app.theme.fonts import keep_sized, scaled
from engine.events import Event
from engine.hardware.host.cores import available_cores
from engine.language import tr

_NARROWEST = 280
_FRAME_MS = 250
_FRAME_ON_FEW_CORES_MS = 500
"""Where every core writes the answer, each picture takes time from it."""
_FEW_CORES = 4
_GRAPHS_EVERY = 2
"""Graphs over a minute move by less than a pixel in a frame, so they are drawn in every second."""
_SLICE_S = 0.006
_WORDS_EVERY_S = 1.0
_MARGIN = 6
_GAP = 8


class PerformancePanel(QWidget):
    """Live view of the engine, fed with its events on the window's thread.

    Paints two or four times a second (that takes processor time from the engine), and only while
    it can be seen and something has changed.
    """

    range_hovered = Signal(str, int, int)
    """A request, and the stretch of its answer (UTF-16) that was written at the moment pointed at.

    (-1, -1): nothing is pointed at.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Performance"))
        keep_sized(self, lambda: self.setMinimumWidth(scaled(_NARROWEST)))
        self.model = PerformanceModel()
        self.sight = Sight(self.model, self)
        self._stale = Part.NOTHING
        self._frames = 0
        self._described_at = -math.inf
        self._hovered = ("", -1, -1)
        self._outside = False
        few = available_cores() <= _FEW_CORES
        self._frame_ms = _FRAME_ON_FEW_CORES_MS if few else _FRAME_MS
        self._frame = QTimer(self, singleShot=True)
        self._frame.timeout.connect(self._next_frame)
        self._build()
        self.sight.changed.connect(self._paint_all)
        self.sight.scrolled.connect(self.timeline.refresh)
        self.sight.pointed.connect(self._pointed)
        self._describe()

    # -- parts -----------------------------------------------------------------------------

    def _build(self) -> None:
        sight = self.sight
        self.controls = Controls(sight)
        self.numbers, self.timeline = NumbersView(sight), TimelineView(sight)
        self.draft_time, self.positions = DraftTimeView(sight), DepthView(sight)
        self.lanes = [LaneView(sight, lane) for lane in self.model.lanes]
        self._sentence = _label(tr("Where the time goes"))
        self._absent = _label(tr("What cannot be measured"))
        self._absent.setText(tr("GPU: none was found that can be measured."))
        self._absent.hide()
        column = QWidget()
        layout = QVBoxLayout(column)
        layout.setContentsMargins(_MARGIN, _MARGIN, _MARGIN, _MARGIN)
        layout.setSpacing(_GAP)
        for part in (
            self.controls,
            self.numbers,
            self.timeline,
            self._sentence,
            self.draft_time,
            self.positions,
            *self.lanes,
            self._absent,
        ):
            layout.addWidget(part)
        layout.addStretch(1)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(column)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)
        for view in self.views:
            view.table_asked.connect(lambda view=view: self.show_table(view))
        self.controls.offer(self.views)
        self._show_present_lanes()

    @property
    def views(self) -> list[PaintedView]:
        """Everything painted, from top to bottom."""
        return [self.numbers, self.timeline, self.draft_time, self.positions, *self.lanes]

    def show_table(self, view: PaintedView) -> None:
        """Open the numbers behind a picture."""
        from app.performance.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

    # -- what comes in ---------------------------------------------------------------------

    def handle_all(self, events: Iterable[Event]) -> None:
        """Take the engine's events in; costs next to nothing, the rest comes with a frame."""
        if self.model.feed(events):
            self._schedule()

    def handle(self, event: Event) -> None:
        """Take one event in."""
        self.handle_all((event,))

    def asked(self, at: float) -> None:
        """Note when the user pressed send, on the events' clock, for the time to first token."""
        self.model.asked(at)

    def clear(self) -> None:
        """Forget everything measured so far."""
        self.model.clear()
        self._stale = Part.ANSWER | Part.TIME
        self._described_at = -math.inf
        self._schedule()

    # -- the link to the text --------------------------------------------------------------

    def show_offset(self, request_id: str, offset: int) -> None:
        """Point at the round that wrote the letter at `offset` of an answer; -1 at none."""
        sight = self.sight
        known = offset >= 0 and request_id == sight.timeline.request_id and self.isVisible()
        done = sight.timeline.writing(offset) if known else None
        self._outside = True
        if done is not None:
            sight.reveal(done)
            sight.point_round(done)
        elif sight.cursor is not None:
            sight.point(None)
            sight.go_to(None)
        self._outside = False

    def _pointed(self) -> None:
        for view in (self.timeline, *self.lanes):
            if view.isVisible():
                view.update()
        if self._outside:
            return  # the text knows where it is pointed at
        rounds = [done for done in self.sight.rounds if done.text_end > done.text_start]
        hovered = ("", -1, -1)
        if rounds:
            hovered = (rounds[0].request_id, rounds[0].text_start, rounds[-1].text_end)
        if hovered != self._hovered:
            self._hovered = hovered
            self.range_hovered.emit(*hovered)

    # -- frames ----------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self.isVisible() and not self._frame.isActive():
            self._frame.start(self._frame_ms)

    def _next_frame(self) -> None:
        if not self.isVisible() or self.window().isMinimized():
            return
        self._stale |= self.model.advance(_SLICE_S)
        if self.model.behind:
            self._frame.start(0)
            return
        self._frames += 1
        if self.sight.frozen:
            return
        self.sight.follow()
        if Part.ANSWER in self._stale:
            self._refresh(self.numbers, self.timeline)
        if self._frames % _GRAPHS_EVERY == 0:
            self._show_present_lanes()
            answers = (self.draft_time, self.positions) if Part.ANSWER in self._stale else ()
            parts = (*answers, *self.lanes)
            self._refresh(*(parts if self._stale else ()))
            self._stale = Part.NOTHING
        elif self._stale:
            self._frame.start(self._frame_ms)
        if not self._described_at <= self.model.now < self._described_at + _WORDS_EVERY_S:
            self._describe()

    def _refresh(self, *views: PaintedView) -> None:
        for view in views:
            if not view.isHidden():
                view.refresh()

    def _paint_all(self) -> None:
        self._show_present_lanes()
        self._refresh(*self.views)
        self._describe()

    def _show_present_lanes(self) -> None:
        present = [lane.present for lane in self.model.lanes]
        lowest = max(index for index, there in enumerate(present) if there)
        for index, (view, there) in enumerate(zip(self.lanes, present, strict=True)):
            view.set_axis(index == lowest)
            if view.isHidden() == there:
                view.setVisible(there)
        absent = self.model.sampled and not present[-2]
        if self._absent.isHidden() == absent:
            self._absent.setVisible(absent)

    def _describe(self) -> None:
        """Renew the words; rarely, so that a reader, human or machine, can follow."""
        self._described_at = self.model.now
        sentence = wording.where_time_goes(self.sight.timeline, self.sight.tally)
        if sentence != self._sentence.text():
            self._sentence.setText(sentence)
        for view in self.views:
            words = view.describe()
            if words != view.accessibleDescription():
                view.setAccessibleDescription(words)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with what happened while hidden."""
        super().showEvent(event)
        self._stale = Part.ANSWER | Part.TIME
        self._described_at = -math.inf
        self._frames = _GRAPHS_EVERY - 1
        self._next_frame()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Rest while nobody looks."""
        self._frame.stop()
        self.sight.point(None)
        super().hideEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._schedule()


def _label(name: str) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    label.setContentsMargins(8, 0, 8, 0)
    label.setProperty("look", "muted")
    label.setAccessibleName(name)
    return label
