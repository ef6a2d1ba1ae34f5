"""The page of an answer that was written earlier: what it did, round by round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from PySide6.QtCore import Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.history import StoredMessage
from app.history.rounds import joined, unpack
from app.performance import wording
from app.performance.columns import Columns
from app.performance.depth_view import DepthView
from app.performance.draft_time_view import DraftTimeView
from app.performance.export import ExportButton
from app.performance.feed import Feed
from app.performance.frames import FramePainter, PaintedView
from app.performance.kinds_view import KindsView
from app.performance.lane_view import LaneView
from app.performance.numbers_view import NumbersView
from app.performance.sight import Window
from app.performance.timeline_view import TimelineView
from app.performance.token_view import TokenView
from app.performance.tokens import Units
from app.widgets.labels import plain_label
from app.widgets.page_frame import PageFrame
from engine.events import Event, Finished, FinishReason, PrefillProgress, TextDelta
from engine.language import tr

_NARROWEST = 420
_WIDEST = 1500
_CHART = 96
_BEFORE_S = 0.001
"""The prompt ends so long before the first round where nobody told how long it took."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """Rounds and tokens of an answer, as the history keeps them."""

    message: StoredMessage
    packed: tuple[bytes, ...]

    @property
    def request_id(self) -> str:
        """Return its name among answers; no request to the engine has it."""
        return f"kept-{self.message.id}"

    def events(self) -> list[Event]:
        """Return the events in the order they were told; none without a readable recording.

        Takes a while: for another thread.
        """
        recordings = [each for each in map(unpack, self.packed) if each is not None]
        whole = joined(recordings)
        if whole is None:
            return []
        message, request_id = self.message, self.request_id
        stats = message.stats if len(recordings) == 1 else None  # it tells of the last go only
        units, spans = Units(message.text), iter(whole.spans)
        first = whole.rounds[0]
        wait = _BEFORE_S if stats is None or stats.ttft_s is None else stats.ttft_s
        begin = min(first.at - wait, first.verify.start)
        events: list[Event] = [PrefillProgress(begin, request_id, 0, 0, 0)]
        for done, count in zip(whole.rounds, whole.told, strict=True):
            some = tuple(next(spans) for _ in range(count))
            if some:
                text = units.between(some[0].start, some[-1].end)
                events.append(TextDelta(done.at, request_id, text, some))
            events.append(replace(done, request_id=request_id))
        rest, end = tuple(spans), whole.rounds[-1].at
        if rest:
            text = units.between(rest[0].start, rest[-1].end)
            events.append(TextDelta(end, request_id, text, rest))
        if stats is not None:
            reason = FinishReason.STOP
            events.append(Finished(end, request_id, reason, message.text, None, stats))
        return events


class ReplayPage(PageFrame):
    """Has an account of its own, so that the live one goes on meanwhile.

    Args:
        feed: was given the events of the answer.
        message: the answer.
    """

    live_asked = Signal()
    """Back to what happens now."""

    def __init__(self, feed: Feed, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(tr("Rounds of an earlier answer"), parent, widest=_WIDEST)
        self.feed, self.sight = feed, feed.sight
        feed.setParent(self)
        self.live = QPushButton(tr("Back to live"), self)
        self.live.setToolTip(tr("Show what the engine does now"))
        self.live.clicked.connect(self.live_asked)
        self.export = ExportButton(feed, self._picture)
        self.add_to_header(self.live)
        self.add_to_header(self.export)
        self.about = plain_label(_about(message), self, "muted")
        self.about.setContentsMargins(8, 0, 8, 0)
        self._sentence = QLabel(self)
        self._build()
        self.sight.scrolled.connect(self.timeline.refresh)
        self.sight.pointed.connect(self._pointed)
        for view in self.frames.views:
            view.table_asked.connect(lambda view=view: self._show_table(view))
        self.sight.show(Window.ANSWER)

    def _build(self) -> None:
        sight, model = self.sight, self.feed.model
        self.numbers, self.timeline = NumbersView(sight), TimelineView(sight, roomy=True)
        self.draft_time, self.positions = DraftTimeView(sight), DepthView(sight)
        self.kinds, self.tokens = KindsView(sight), TokenView(sight)
        self.lanes = [
            LaneView(sight, lane, chart=_CHART) for lane in (model.speed, model.acceptance)
        ]
        for lane in self.lanes:
            lane.set_axis(True)
        answers = (self.draft_time, self.positions, self.kinds, self.tokens)
        self.frames = FramePainter(
            self.feed, self, (self.numbers, self.timeline), answers, self.lanes
        )
        self.frames.words_due.connect(self._say)
        self._sentence.setProperty("look", "muted")
        self._sentence.setWordWrap(True)
        self._sentence.setContentsMargins(8, 0, 8, 0)
        self._sentence.setAccessibleName(tr("Where the time goes"))
        for part in (
            self.about,
            self.numbers,
            self.timeline,
            self._sentence,
            Columns((self.draft_time, self.positions), _NARROWEST),
            self.kinds,
            self.tokens,
            Columns(self.lanes, _NARROWEST),
        ):
            self.column.addWidget(part)
        self.column.addStretch(1)

    def take_keyboard(self) -> None:
        """Arrows walk the rounds at once."""
        self.timeline.setFocus()

    def _say(self) -> None:
        sight = self.sight
        self._sentence.setText(wording.where_time_goes(sight.timeline, sight.tally))

    def _pointed(self) -> None:
        for view in self.frames.views:
            if view.isVisible():
                view.update()

    def _show_table(self, view: PaintedView) -> None:
        from app.widgets.table_dialog import TableDialog

        TableDialog(view.table(), self).open()

    def _picture(self) -> QImage:
        """Return a picture of all of the page, also what one would have to scroll to."""
        return self._inside.grab().toImage()


def _about(message: StoredMessage) -> str:
    when = datetime.fromtimestamp(message.created_at).astimezone().strftime("%Y-%m-%d %H:%M")
    return tr("{model}, {when}. The graphs of the machine are not kept.").format(
        model=message.model or tr("unknown"), when=when
    )
