"""One dashboard for panel, performance page and replay: what an answer did, heaviest first."""

from __future__ import annotations

import time
from dataclasses import dataclass

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QLabel, QWidget

from app.engine_link.status import EngineStatus
from app.performance import wording
from app.performance.baseline import WithoutDraft
from app.performance.columns import Columns
from app.performance.controls import Controls
from app.performance.depth_view import DepthView
from app.performance.draft_time_view import DraftTimeView
from app.performance.evidence import RunFacts, evidence
from app.performance.feed import Feed
from app.performance.findings import findings
from app.performance.findings_view import FindingsView
from app.performance.frames import FramePainter, PaintedView
from app.performance.gain_view import GainView
from app.performance.kinds_view import KindsView
from app.performance.known_speeds import KnownSpeeds
from app.performance.lane_view import CHART, LaneView, show_present
from app.performance.model import USUAL
from app.performance.numbers_view import NumbersView
from app.performance.timeline_view import TimelineView
from app.performance.token_view import TokenView
from app.performance.verdict import Outcome, SpeedVerdict
from app.theme.theme import current
from app.widgets.boxes import vbox
from app.widgets.fold import Fold
from app.widgets.labels import plain_label
from engine.language import tr

_NARROWEST = 420
"""Logical pixels of a column of graphs."""
_SIDE = 8


@dataclass(frozen=True, slots=True)
class DashboardLook:
    """Differences between the dashboards.

    Attributes:
        roomy: with high lanes and a long list of tokens.
        opened: what is below the fold is on show to begin with.
        lanes: number of graphs.
        chart: height of a graph in logical pixels.
        live: of what happens now, with graphs of the machine; else of an earlier answer.
        gap: between two parts in logical pixels.
    """

    roomy: bool = True
    opened: bool = True
    lanes: int | None = None
    chart: int = 96
    live: bool = True
    gap: int = 16


PANEL = DashboardLook(roomy=False, opened=False, lanes=USUAL, chart=CHART, gap=8)
PAGE = DashboardLook()
REPLAY = DashboardLook(lanes=2, live=False)


class Dashboard(QWidget):
    """Gain, timeline and tokens of the answer on show; everything else below a fold.

    Args:
        feed: the measurements.
        look: one of the three above.
        without: the speed of the model without its draft; None: not asked for.
        known: how fast this machine is, for the reasons of the speed; None: none are given.
    """

    pointed = Signal()
    """The cursor has moved."""

    def __init__(
        self,
        feed: Feed,
        look: DashboardLook,
        without: WithoutDraft | None = None,
        known: KnownSpeeds | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.feed, self.sight = feed, feed.sight
        self._look, self._without, self._known = look, without, known
        sight = self.sight
        self.gain = GainView(sight, without)
        self.timeline = TimelineView(sight, roomy=look.roomy)
        self.tokens = TokenView(sight, roomy=look.roomy)
        self.findings = None if without is None or known is None else FindingsView(without)
        self.controls = Controls(sight)
        self.numbers = NumbersView(sight)
        self.draft_time, self.positions = DraftTimeView(sight), DepthView(sight)
        self.kinds = KindsView(sight)
        lanes = feed.model.lanes[: look.lanes]
        self.lanes = [LaneView(sight, lane, chart=look.chart) for lane in lanes]
        self.sentence = _muted(tr("Where the time goes"), self)
        self.absent = _muted(tr("What cannot be measured"), self)
        self.absent.setText(tr("GPU: none was found that can be measured."))
        self.absent.hide()
        self._graphs = Columns(self.lanes, _NARROWEST)
        self.fold = Fold(tr("Details"), opened=look.opened)
        self._build()
        self.frames = FramePainter(
            feed,
            self,
            (self.gain, self.numbers, self.timeline),
            (self.tokens, self.draft_time, self.positions, self.kinds),
            self.lanes,
        )
        self._connect()
        self._show_present_lanes()

    @property
    def views(self) -> list[PaintedView]:
        """Return all painted views, from top to bottom."""
        below = (self.numbers, self.draft_time, self.positions, self.kinds)
        return [self.gain, self.timeline, self.tokens, *below, *self.lanes]

    def picture(self) -> QImage:
        """Return a picture of all of it, also what one would have to scroll to."""
        scale = self.devicePixelRatioF()
        image = QImage(self.size() * scale, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        image.fill(QColor(current().window))
        self.render(image, QPoint(), renderFlags=QWidget.RenderFlag.DrawChildren)
        return image

    def card(self) -> QImage:
        """Return the picture to share."""
        from app.performance.card import CardFacts, draw_card

        sight, without = self.sight, self._without
        present = without.status if without is not None else EngineStatus()
        model = sight.whose.model or present.model_name
        at = sight.whose.at or time.time()
        facts = CardFacts(self.gain.gain, model, sight.mode, present.machine, at)
        return draw_card(facts, self.font())

    def _build(self) -> None:
        top: tuple[QWidget, ...] = (self.gain, self.timeline, self.tokens, self.fold)
        vbox(*top, 1, to=self, spacing=self._look.gap, margins=0)
        below = self.fold.column
        below.setSpacing(self._look.gap)
        if self.findings is not None:
            below.addWidget(self.findings)
        for part in (
            self.numbers,
            self.sentence,
            Columns((self.draft_time, self.positions), _NARROWEST),
            self.kinds,
            self.controls,
            self._graphs,
            self.absent,
        ):
            below.addWidget(part)
        self.controls.setVisible(self._look.live)

    def _connect(self) -> None:
        for view in self.views:
            view.table_asked.connect(lambda view=view: self._show_table(view))
        self.controls.offer(self.views)
        self.frames.graphs_due.connect(self._show_present_lanes)
        self.frames.words_due.connect(self._say)
        self.sight.scrolled.connect(self.timeline.refresh)
        self.sight.pointed.connect(self._point)
        self.fold.toggled.connect(lambda _opened: self.frames.paint_all())
        if self._without is not None:
            self._without.changed.connect(self._compare_again)
            if self._look.live:  # nothing is measured for nobody
                self.frames.left.connect(self._without.leave)

    def _show_table(self, view: PaintedView) -> None:
        from app.widgets.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

    # -- what changes ----------------------------------------------------------------------

    def _point(self) -> None:
        for view in (self.timeline, self.tokens, *self.lanes):
            if view.isVisible():
                view.update()
        self.pointed.emit()

    def _show_present_lanes(self) -> None:
        if not self._look.live:
            for view in self.lanes:
                view.set_axis(True)
            return
        show_present(self.lanes)
        self._graphs.arrange()
        shown = [view for view in self.lanes if view.present]
        for view in shown[-self._graphs.columns :]:
            view.set_axis(True)
        model = self.feed.model
        absent = model.sample is not None and not model.lanes[4].present
        if self.absent.isHidden() == absent:
            self.absent.setVisible(absent)

    def _compare_again(self) -> None:
        """Renew the texts: a new measurement may explain the speed."""
        self.frames.renew(self.gain)

    def _say(self) -> None:
        sight, tally, without = self.sight, self.sight.tally, self._without
        verdict, wanted = sight.verdict, self._look.live and sight.kept is None
        lacks = verdict is not None and verdict.plain is None
        if without is not None and tally is not None and wanted and lacks:
            without.measure_soon(tally.request_id)
        if not self.fold.opened:
            return
        self.sentence.setText(wording.where_time_goes(sight.timeline, tally))
        if self.findings is not None and self._known is not None:
            self._explain(self.findings, self._known, verdict)

    def _explain(
        self, view: FindingsView, known: KnownSpeeds, verdict: SpeedVerdict | None
    ) -> None:
        slower = verdict is not None and verdict.outcome is Outcome.SLOWER
        plain = verdict.plain if verdict is not None and slower else None
        speed = None if plain is None else plain.speed
        setting = RunFacts(known.speeds, known.threads, known.cores, speed)
        seen = evidence(self.feed.model, self.sight.timeline, self.sight.tally, setting)
        view.show_findings(findings(seen))
        view.show_comparison(self.gain.gain)


def _muted(name: str, parent: QWidget) -> QLabel:
    label = plain_label("", parent, "muted")
    label.setContentsMargins(_SIDE, 0, _SIDE, 0)
    label.setAccessibleName(name)
    return label
