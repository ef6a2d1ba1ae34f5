"""The tuning page: what was found here, which mode runs and why, how much of a card it has."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.pages.frame import PageFrame
from app.tuning.running import Running
from engine.language import tr


class TuningPage(PageFrame):
    """How the model runs, chosen with everything in view that speaks for or against it."""

    def __init__(self, running: Running, parent: QWidget | None = None) -> None:
        super().__init__(tr("Tuning"), parent)
        self._running = running
