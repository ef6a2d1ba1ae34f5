"""The header button that names the mode; its panel changes how the model runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.engine_link.plan_texts import chosen_words, mode_name, run_words
from app.theme.keys import with_keys
from app.tuning.run_choice import RunChoice
from app.widgets.text_button import OPENER
from engine.language import tr

if TYPE_CHECKING:
    from app.tuning.run_panel import RunPanel

KEYS = "Ctrl+Shift+T"
_BELOW = 4


class RunButton(QToolButton):
    """Shows the mode that was chosen, and what came of it."""

    page_asked = Signal()
    """The page with everything about it; what was begun in the panel goes on there."""

    def __init__(self, choosing: RunChoice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choosing, self._running = choosing, choosing.running
        self._panel: RunPanel | None = None
        self._making = False
        self.setProperty("look", "quiet")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(lambda _=False: self.open_panel())
        self._running.changed.connect(self._show)
        self._show()

    @property
    def panel(self) -> RunPanel:
        """The panel; made when it is first wanted."""
        if self._panel is None:
            from app.tuning.run_panel import RunPanel

            self._panel = RunPanel(self._choosing, self)
            self._panel.drafts.folder_asked.connect(self.ask_folder)
            self._panel.drafts.file_asked.connect(self.ask_file)
            self._panel.page_asked.connect(self.page_asked)
        return self._panel

    def _make_panel(self) -> None:
        """While nobody waits for it: to make it and to measure its texts takes a moment each."""
        QTimer.singleShot(0, self.panel, self.panel.measure)

    def open_panel(self) -> None:
        """Open the panel below the button."""
        if self._running.possible:
            place = self if self.isVisible() else self.window()
            corner = QPoint(place.width(), self.height() + _BELOW)
            self.panel.open_below(place.mapToGlobal(corner))

    def ask_folder(self) -> None:
        """Let the user choose a folder with a draft: a head, or a model."""
        self._ask(folder=True)

    def ask_file(self) -> None:
        """Let the user choose a draft model in a GGUF file."""
        self._ask(folder=False)

    def _ask(self, *, folder: bool) -> None:
        """Put the panel aside; it comes back with the draft chosen in it."""
        if self._panel is not None:
            self._panel.put_aside()
        from app.tuning.draft_dialog import ask_for_draft

        ask_for_draft(self, self._running, self._chosen, folder=folder)

    def _chosen(self, draft: Path) -> None:
        self._choosing.choose(draft=draft)
        self.open_panel()

    def _show(self) -> None:
        running = self._running
        status = running.bridge.status
        plan = status.plan
        elsewhere = plan is not None and plan.host != ""
        words = chosen_words(running.profile.mode, plan)
        if running.pending:
            words = tr("Next: {mode}").format(mode=mode_name(running.profile.mode))
        self.setText(f"{words} {OPENER}")
        self.setEnabled(running.possible)
        self.setAccessibleName(tr("How the model runs: {mode}").format(mode=words))
        told = [with_keys(tr("How the model runs"), KEYS)]
        if status.plan is not None and not elsewhere:
            if self._panel is None and not self._making:
                self._making = True
                QTimer.singleShot(0, self, self._make_panel)
            told.append(f"{run_words(status.plan, status.machine)}.")
        if running.pending:
            told.append(tr("The change waits until the answer is finished."))
        self.setToolTip("\n".join(told))
