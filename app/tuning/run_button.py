"""The header button that names the mode; its panel changes how the model runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.engine_link.plan_texts import chosen_words, mode_name, run_words
from app.engine_link.running import Running, RunWish
from app.theme.keys import with_keys
from app.tuning.draft_dialog import ask_draft_file, ask_draft_folder
from app.tuning.run_panel import RunPanel
from engine.language import tr

_OPENER = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
KEYS = "Ctrl+Shift+M"
_BELOW = 4


class RunButton(QToolButton):
    """Shows the mode that was chosen, and what came of it."""

    page_asked = Signal(object)
    """The page with everything about it; the `RunWish` that was begun in the panel."""

    def __init__(self, running: Running, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._running = running
        self._panel: RunPanel | None = None
        self._making = False
        self.setProperty("look", "quiet")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(lambda _=False: self.open_panel())
        running.changed.connect(self._show)
        self._show()

    @property
    def panel(self) -> RunPanel:
        """The panel; made when it is first wanted."""
        if self._panel is None:
            self._panel = RunPanel(self._running, self)
            self._panel.folder_asked.connect(self.ask_folder)
            self._panel.file_asked.connect(self.ask_file)
            self._panel.page_asked.connect(lambda: self.page_asked.emit(self.panel.wish))
        return self._panel

    def _make_panel(self) -> None:
        """While nobody waits for it: to make it and to measure its texts takes a moment each."""
        QTimer.singleShot(0, self.panel, self.panel.measure)

    def open_panel(self, wish: RunWish | None = None) -> None:
        """Open the panel below the button; `wish`: what shall be chosen in it already."""
        if self._running.possible:
            place = self if self.isVisible() else self.window()
            corner = QPoint(place.width(), self.height() + _BELOW)
            self.panel.open_below(place.mapToGlobal(corner), wish)

    def ask_folder(self) -> None:
        """Let the user choose a folder with a draft: a head, or a model."""
        ask_draft_folder(self, self._running, self._asking())

    def ask_file(self) -> None:
        """Let the user choose a draft model in a GGUF file."""
        ask_draft_file(self, self._running, self._asking())

    def _asking(self) -> Callable[[Path], None]:
        """Put the panel aside; what brings it back with the draft chosen in it."""
        wish = self._panel.wish if self._panel and self._panel.isVisible() else self._running.wish
        if self._panel is not None:
            self._panel.hide()
        return lambda draft: self.open_panel(replace(wish, draft=draft))

    def _show(self) -> None:
        running = self._running
        status = running.bridge.status
        words = chosen_words(running.wish.mode, status.plan)
        if running.pending:
            words = tr("Next: {mode}").format(mode=mode_name(running.wish.mode))
        self.setText(f"{words} {_OPENER}")
        self.setEnabled(running.possible)
        self.setAccessibleName(tr("How the model runs: {mode}").format(mode=words))
        told = [with_keys(tr("How the model runs"), KEYS)]
        if status.plan is not None:
            if self._panel is None and not self._making:
                self._making = True
                QTimer.singleShot(0, self, self._make_panel)
            told.append(f"{run_words(status.plan, status.machine)}.")
        if running.pending:
            told.append(tr("The change waits until the answer is finished."))
        self.setToolTip("\n".join(told))
