"""The benchmark page: this model on this PC in every mode that fits."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.pages.frame import PageFrame
from app.tuning.running import Running
from engine.language import tr


class BenchmarkPage(PageFrame):
    """One click measures; bars, a text to share, and the winner kept for this model."""

    def __init__(self, running: Running, parent: QWidget | None = None) -> None:
        super().__init__(tr("Benchmark"), parent)
        self._running = running
