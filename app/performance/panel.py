"""The performance panel: numbers, timeline and graphs of what the engine is doing."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.performance import wording
from app.performance.baseline import WithoutDraft
from app.performance.controls import Controls
from app.performance.depth_view import DepthView
from app.performance.draft_time_view import DraftTimeView
from app.performance.feed import Feed
from app.performance.frames import FramePainter, PaintedView
from app.performance.lane_view import LaneView, show_present
from app.performance.model import USUAL
from app.performance.numbers_view import NumbersView
from app.performance.timeline_view import TimelineView
from app.theme.fonts import keep_sized, scaled
from engine.language import tr

_NARROWEST = 280
_MARGIN = 6
_GAP = 8


class PerformancePanel(QWidget):
    """Live view of the engine beside the chat. When it paints: see `FramePainter`."""

    range_hovered = Signal(str, int, int)
    """A request, and the stretch of its answer (UTF-16) that was written at the moment pointed at.

    (-1, -1): nothing is pointed at.
    """

    def __init__(
        self, feed: Feed, without: WithoutDraft | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._without = without
        self.setAccessibleName(tr("Performance"))
        keep_sized(self, lambda: self.setMinimumWidth(scaled(_NARROWEST)))
        self.feed, self.sight = feed, feed.sight
        self._hovered = ("", -1, -1)
        self._outside = False
        self._build()
        answers = (self.draft_time, self.positions)
        self.frames = FramePainter(feed, self, (self.numbers, self.timeline), answers, self.lanes)
        self.frames.graphs_due.connect(self._show_present_lanes)
        self.frames.words_due.connect(self._describe)
        self.sight.scrolled.connect(self.timeline.refresh)
        self.sight.pointed.connect(self._pointed)
        self.frames.describe()

    # -- parts -----------------------------------------------------------------------------

    def _build(self) -> None:
        sight = self.sight
        self.controls = Controls(sight)
        self.numbers, self.timeline = NumbersView(sight), TimelineView(sight)
        self.draft_time, self.positions = DraftTimeView(sight), DepthView(sight)
        self.lanes = [LaneView(sight, lane) for lane in self.feed.model.lanes[:USUAL]]
        self.gain = _label(tr("What drafting brings"))
        self.gain.setProperty("look", "title")
        self.gain.hide()
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
            self.gain,
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
        """Return all painted views, from top to bottom."""
        return [self.numbers, self.timeline, self.draft_time, self.positions, *self.lanes]

    def show_table(self, view: PaintedView) -> None:
        """Open the numbers behind a picture."""
        from app.widgets.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

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

    # -- words and what is there -----------------------------------------------------------

    def _show_present_lanes(self) -> None:
        show_present(self.lanes)
        model = self.feed.model
        absent = model.sample is not None and not model.lanes[4].present
        if self._absent.isHidden() == absent:
            self._absent.setVisible(absent)

    def _describe(self) -> None:
        if self._without is not None:
            gain = self._without.gain(self.sight.timeline, self.sight.tally)
            self.gain.setVisible(bool(gain))
            if gain != self.gain.text():
                self.gain.setText(gain)
        sentence = wording.where_time_goes(self.sight.timeline, self.sight.tally)
        if sentence != self._sentence.text():
            self._sentence.setText(sentence)


def _label(name: str) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    label.setContentsMargins(8, 0, 8, 0)
    label.setProperty("look", "muted")
    label.setAccessibleName(name)
    return label
