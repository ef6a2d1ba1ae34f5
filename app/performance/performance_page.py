"""The performance page: everything that is known of an answer's rounds, at full size."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.pages.frame import PageFrame
from app.performance.feed import Feed
from engine.language import tr


class PerformancePage(PageFrame):
    """What the panel shows, and more: rounds, tokens, the way to export them."""

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(tr("Performance"), parent)
        self.feed = feed
