"""The performance page: the dashboard at full size, with files of it all."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.performance.baseline import WithoutDraft
from app.performance.dashboard import PAGE, Dashboard, DashboardLook
from app.performance.export import ExportButton
from app.performance.feed import Feed
from app.performance.known_speeds import KnownSpeeds
from app.widgets.page_frame import PageFrame
from engine.language import tr

_WIDEST = 1500


class PerformancePage(PageFrame):
    """A dashboard in a page, and the button that saves what was measured.

    Args:
        feed: the measurements.
        without: the speed of the model without its draft.
        known: how fast this machine is.
        look: the dashboard's.
        title: of the page, translated.
    """

    def __init__(
        self,
        feed: Feed,
        without: WithoutDraft | None = None,
        known: KnownSpeeds | None = None,
        parent: QWidget | None = None,
        *,
        look: DashboardLook = PAGE,
        title: str = "",
    ) -> None:
        super().__init__(title or tr("Performance"), parent, widest=_WIDEST)
        self.board = Dashboard(feed, look, without, known, self)
        self.column.addWidget(self.board)
        self.export = ExportButton(feed, self.board.picture, self.board.card)
        self.add_to_header(self.export)

    def take_keyboard(self) -> None:
        """Arrows walk the rounds at once."""
        self.board.timeline.setFocus()
