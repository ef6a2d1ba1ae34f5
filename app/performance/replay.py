"""The page of an answer that was written earlier: what it did, round by round."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from app.performance.baseline import WithoutDraft
from app.performance.dashboard import REPLAY
from app.performance.feed import Feed
from app.performance.performance_page import PerformancePage
from app.performance.sight import Window
from engine.language import tr


class ReplayPage(PerformancePage):
    """Has an account of its own, so that the live one goes on meanwhile.

    Args:
        feed: was given the events of the answer.
        without: the speed of the model without its draft.
    """

    live_asked = Signal()
    """Back to what happens now."""

    def __init__(
        self, feed: Feed, without: WithoutDraft | None = None, parent: QWidget | None = None
    ) -> None:
        title = tr("Rounds of an earlier answer")
        super().__init__(feed, without, parent=parent, look=REPLAY, title=title)
        feed.setParent(self)
        self.live = QPushButton(tr("Back to live"), self)
        self.live.setToolTip(tr("Show what the engine does now"))
        self.live.clicked.connect(self.live_asked)
        self.add_to_header(self.live)
        feed.sight.show(Window.ANSWER)
