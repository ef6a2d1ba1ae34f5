"""The performance panel: the dashboard beside the chat."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.performance.baseline import WithoutDraft
from app.performance.dashboard import PANEL, Dashboard
from app.performance.feed import Feed
from app.theme.fonts import keep_sized, scaled
from app.widgets.boxes import vbox
from engine.language import tr

_NARROWEST = 280
_MARGIN = 6


class PerformancePanel(QScrollArea):
    """Joins the dashboard with the words in the chat: pointing at one shows the other."""

    range_hovered = Signal(str, int, int)
    """A request, and the stretch of its answer (UTF-16) that was written at the moment pointed at.

    (-1, -1): nothing is pointed at.
    """

    def __init__(
        self, feed: Feed, without: WithoutDraft | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Performance"))
        keep_sized(self, lambda: self.setMinimumWidth(scaled(_NARROWEST)))
        self.board, self.sight = Dashboard(feed, PANEL, without), feed.sight
        self._hovered = ("", -1, -1)
        self._outside = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inside = QWidget()
        vbox(self.board, to=inside, margins=_MARGIN)
        self.setWidget(inside)
        self.board.pointed.connect(self._pointed)

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
        if self._outside:
            return  # the text knows where it is pointed at
        rounds = [done for done in self.sight.rounds if done.text_end > done.text_start]
        hovered = ("", -1, -1)
        if rounds:
            hovered = (rounds[0].request_id, rounds[0].text_start, rounds[-1].text_end)
        if hovered != self._hovered:
            self._hovered = hovered
            self.range_hovered.emit(*hovered)
