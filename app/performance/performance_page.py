"""The performance page: everything that is known of an answer's rounds, at full size."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage, QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.performance import wording
from app.performance.baseline import WithoutDraft
from app.performance.columns import Columns
from app.performance.controls import Controls
from app.performance.depth_view import DepthView
from app.performance.draft_time_view import DraftTimeView
from app.performance.evidence import RunFacts, evidence
from app.performance.export import ExportButton
from app.performance.feed import Feed
from app.performance.findings import findings
from app.performance.findings_view import FindingsView
from app.performance.frames import FramePainter, PaintedView
from app.performance.kinds_view import KindsView
from app.performance.known_speeds import KnownSpeeds
from app.performance.lane_view import LaneView, show_present
from app.performance.numbers_view import NumbersView
from app.performance.timeline_view import TimelineView
from app.performance.token_view import TokenView
from app.theme.fonts import scaled
from app.theme.theme import current
from app.widgets.labels import plain_label
from app.widgets.page_frame import PageFrame
from engine.language import tr

_CHART = 96
_NARROWEST = 420
"""Logical pixels of a column of graphs."""
_WIDEST = 1500
_BESIDE_TITLE = 620


class PerformancePage(PageFrame):
    """The panel's views, the reasons for the speed, the gain of drafting, and files of it all.

    Args:
        feed: the measurements.
        without: the speed of the model without its draft.
        known: how fast this machine is.
    """

    def __init__(
        self,
        feed: Feed,
        without: WithoutDraft,
        known: KnownSpeeds,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(tr("Performance"), parent, widest=_WIDEST)
        self.feed, self.sight = feed, feed.sight
        self._without, self._known = without, known
        self._beside: bool | None = None
        self._build()
        quick, answers = (self.numbers, self.timeline), (self.draft_time, self.positions)
        self.frames = FramePainter(feed, self, quick, answers, self.lanes)
        self.frames.graphs_due.connect(self._show_present_lanes)
        self.frames.words_due.connect(self._say)
        for view in self.frames.views:
            self._connect(view)
        self.controls.offer(self.frames.views)
        self.sight.scrolled.connect(self.timeline.refresh)
        self.sight.pointed.connect(self._pointed)
        without.changed.connect(self._compare_again)
        self.kinds, self.tokens = KindsView(self.sight), TokenView(self.sight)
        self.add_view(self.kinds)
        self.add_view(self.tokens)
        self._show_present_lanes()
        self.frames.describe()

    def add_view(self, view: QWidget) -> None:
        """Add one more part about the answer, above the graphs; a painted one is kept fresh."""
        self._more.addWidget(view)
        if isinstance(view, PaintedView):
            self.frames.add(view)
            self._connect(view)
            self.controls.offer(self.frames.views)

    def take_keyboard(self) -> None:
        """Arrows walk the rounds at once."""
        self.timeline.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Put the controls on a line of their own in a narrow page."""
        super().resizeEvent(event)
        beside = self.width() >= scaled(_BESIDE_TITLE)
        if beside is not self._beside:
            self._beside = beside
            if beside:
                self.header.insertWidget(self.header.indexOf(self.export), self.controls)
            else:
                self.column.insertWidget(0, self.controls)

    # -- parts -----------------------------------------------------------------------------

    def _build(self) -> None:
        sight = self.sight
        self.controls = Controls(sight)
        self.export = ExportButton(self.feed, self._picture)
        self.add_to_header(self.export)
        self.numbers, self.timeline = NumbersView(sight), TimelineView(sight, roomy=True)
        self.draft_time, self.positions = DraftTimeView(sight), DepthView(sight)
        self.findings = FindingsView(self.feed, self._without)
        self.lanes = [LaneView(sight, lane, chart=_CHART) for lane in self.feed.model.lanes]
        self._sentence = _muted(tr("Where the time goes"), self)
        self._absent = _muted(tr("What cannot be measured"), self)
        self._absent.setText(tr("GPU: none was found that can be measured."))
        self._absent.hide()
        self._more = QVBoxLayout()
        self._more.setContentsMargins(0, 0, 0, 0)
        self._graphs = Columns(self.lanes, _NARROWEST)
        for part in (
            self.numbers,
            self.findings,
            self.timeline,
            self._sentence,
            Columns((self.draft_time, self.positions), _NARROWEST),
        ):
            self.column.addWidget(part)
        self.column.addLayout(self._more)
        self.column.addWidget(self._graphs)
        self.column.addWidget(self._absent)
        self.column.addStretch(1)

    def _connect(self, view: PaintedView) -> None:
        view.table_asked.connect(lambda: self._show_table(view))

    def _show_table(self, view: PaintedView) -> None:
        from app.widgets.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

    def _picture(self) -> QImage:
        """Return a picture of all of the page, also what one would have to scroll to."""
        scale = self.devicePixelRatioF()
        image = QImage(self._inside.size() * scale, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        image.fill(QColor(current().window))
        children = QWidget.RenderFlag.DrawChildren
        self._inside.render(image, QPoint(), renderFlags=children)
        return image

    # -- what changes ----------------------------------------------------------------------

    def _pointed(self) -> None:
        for view in self.frames.views:
            if view.isVisible():
                view.update()

    def _show_present_lanes(self) -> None:
        show_present(self.lanes)
        self._graphs.arrange()
        shown = [view for view in self.lanes if view.present]
        for view in shown[-self._graphs.columns :]:
            view.set_axis(True)
        model = self.feed.model
        absent = model.sample is not None and not model.lanes[4].present
        if self._absent.isHidden() == absent:
            self._absent.setVisible(absent)

    def _compare_again(self) -> None:
        """Renew the texts: a new measurement may explain the speed."""
        if self.isVisible():
            self._say()

    def _say(self) -> None:
        sight, known = self.sight, self._known
        self._sentence.setText(wording.where_time_goes(sight.timeline, sight.tally))
        baseline = self._without.baseline(sight.timeline)
        speed = None if baseline is None else baseline.tokens_per_s
        setting = RunFacts(known.speeds, known.threads, known.cores, speed)
        seen = evidence(self.feed.model, sight.timeline, sight.tally, setting)
        self.findings.show_findings(findings(seen))
        self.findings.show_comparison()


def _muted(name: str, parent: QWidget) -> QLabel:
    label = plain_label("", parent, "muted")
    label.setContentsMargins(8, 0, 8, 0)
    label.setAccessibleName(name)
    return label
