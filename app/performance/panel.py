"""The performance panel: numbers, timeline and graphs of what the engine is doing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.performance import wording
from app.performance.depth_view import DepthView
from app.performance.lane_view import LaneView
from app.performance.model import Part, PerformanceModel
from app.performance.numbers_view import NumbersView
from app.performance.painted_view import PaintedView
from app.performance.timeline_view import TimelineView
from engine.events import Event

_FRAME_MS = 200
_WORDS_EVERY_S = 1.0
_MARGIN = 14
_GAP = 16


class PerformancePanel(QWidget):
    """Live view of the engine, fed with its events on the window's thread.

    Repaints at most five times a second (drawing takes processor time from the engine), and only
    while it can be seen and something changed.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Performance")
        self.setMinimumWidth(280)
        self.model = PerformanceModel()
        self._changed = Part.NOTHING
        self._described_at = -math.inf
        self._frame = QTimer(self, singleShot=True, interval=_FRAME_MS)
        self._frame.timeout.connect(self._refresh)
        self._build()
        self._describe()

    def _build(self) -> None:
        model = self.model
        self._sentence = QLabel(wording.where_time_goes(model.timeline, None))
        self._sentence.setWordWrap(True)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._sentence.setAccessibleName("Where the time goes")
        self._answer_views: list[PaintedView] = [
            NumbersView(model),
            TimelineView(model),
            DepthView(model),
        ]
        self._lane_views = {lane.title: LaneView(model, lane) for lane in model.lanes}
        column = QWidget()
        layout = QVBoxLayout(column)
        layout.setContentsMargins(_MARGIN, _MARGIN, _MARGIN, _MARGIN)
        layout.setSpacing(_GAP)
        numbers, timeline, depth = self._answer_views
        layout.addWidget(numbers)
        finding = QVBoxLayout()
        finding.setSpacing(6)
        finding.addWidget(timeline)
        finding.addWidget(self._sentence)
        layout.addLayout(finding)
        layout.addWidget(depth)
        for view in self._lane_views.values():
            layout.addWidget(view)
        layout.addStretch(1)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(column)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)
        self._show_present_lanes()

    @property
    def views(self) -> list[PaintedView]:
        """Everything painted, from top to bottom."""
        return [*self._answer_views, *self._lane_views.values()]

    def handle_all(self, events: Iterable[Event]) -> None:
        """Take the engine's events in; cheap, drawing comes later."""
        changed = self._changed
        for event in events:
            changed |= self.model.handle(event)
        if changed:
            self._changed = changed
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
        self._changed = Part.ANSWER | Part.TIME
        self._described_at = -math.inf
        self._schedule()

    def _schedule(self) -> None:
        if self.isVisible() and not self._frame.isActive():
            self._frame.start()

    def _refresh(self) -> None:
        if not self.isVisible() or self.window().isMinimized():
            return
        changed, self._changed = self._changed, Part.NOTHING
        if Part.ANSWER in changed:
            for view in self._answer_views:
                view.update()
        if Part.TIME in changed:
            self._show_present_lanes()
            for view in self._lane_views.values():
                view.update()
        if not self._described_at <= self.model.now < self._described_at + _WORDS_EVERY_S:
            self._describe()

    def _show_present_lanes(self) -> None:
        lowest = [lane.title for lane in self.model.lanes if lane.present][-1]
        for lane in self.model.lanes:
            view = self._lane_views[lane.title]
            view.set_axis(lane.title == lowest)
            if view.isHidden() == lane.present:
                view.setVisible(lane.present)

    def _describe(self) -> None:
        """Renew the words; rarely, so that a reader, human or machine, can follow."""
        self._described_at = self.model.now
        self._sentence.setText(wording.where_time_goes(self.model.timeline, self.model.tally))
        for view in self.views:
            view.setAccessibleDescription(view.describe())

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with what happened while hidden."""
        super().showEvent(event)
        self._changed = Part.ANSWER | Part.TIME
        self._described_at = -math.inf
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Rest while nobody looks."""
        self._frame.stop()
        super().hideEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._schedule()
