"""The header button that names the model; its menu loads another one."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QActionGroup, QFontMetrics
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from app.engine_link.status import EngineStatus, Phase
from app.models.choice import ModelChoice
from app.models.file_chooser import ask_for_model
from app.models.model_texts import kind_beside
from app.models.server_book import ServerBook
from app.models.server_menu import ServerMenu
from app.theme.keys import with_keys
from engine.language import tr
from engine.language.units import file_size

_WIDEST = 220
_OPENER = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"


class ModelButton(QToolButton):
    """Shows which model answers, and how far it has loaded."""

    more_asked = Signal()
    """The page with other models is asked for."""
    running_asked = Signal()
    """The panel on how the model runs is asked for."""

    def __init__(
        self, choice: ModelChoice, servers: ServerBook, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._choice = choice
        self.servers = ServerMenu(servers, choice.bridge, self)
        self.setProperty("look", "quiet")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(with_keys(tr("Choose the model"), "Ctrl+M"))
        self.clicked.connect(self.open_menu)
        choice.bridge.status_changed.connect(self._show_status)
        self._show_status(choice.bridge.status)

    def open_menu(self) -> None:
        """Open the menu below the button."""
        menu = self.make_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.mapToGlobal(QPoint(0, self.height() + 4)))

    def make_menu(self) -> QMenu:
        """The menu as it is now."""
        menu = QMenu(self, toolTipsVisible=True)
        menu.setAccessibleName(tr("Model"))
        _add_heading(menu, tr("Model"))
        group = QActionGroup(menu)
        self._add_models(menu, group)
        self.servers.add_models(menu, group)
        menu.addSeparator()
        menu.addAction(tr("Open a model file…"), self.ask_file)
        menu.addAction(tr("Open a model folder…"), self.ask_folder)
        menu.addAction(tr("Find more models…"), self.more_asked.emit)
        self.servers.add_servers(menu)
        menu.addSeparator()
        running = menu.addAction(tr("Mode, draft and GPU memory…"), self.running_asked.emit)
        running.setEnabled(self._choice.running.possible)
        unload = menu.addAction(tr("Unload model"), self._choice.unload)
        unload.setEnabled(self._choice.bridge.status.plan is not None)
        return menu

    def _add_models(self, menu: QMenu, group: QActionGroup) -> None:
        last = self._choice.bridge.status.wanted
        for model in self._choice.models:
            if model.head:  # drafts for a model, and cannot answer
                continue
            kind = kind_beside(model.name, model.kind)
            parts = (model.name, kind, file_size(model.weight_bytes))
            words = "  \N{MIDDLE DOT}  ".join(part for part in parts if part)
            action = menu.addAction(words, partial(self._choice.load, model.path))
            action.setToolTip(str(model.path))
            action.setCheckable(True)
            action.setChecked(last is not None and last.model == model.path)
            group.addAction(action)

    def ask_file(self) -> None:
        """Let the user choose a GGUF file."""
        self._ask(folder=False)

    def ask_folder(self) -> None:
        """Let the user choose a folder with a model, or with several."""
        self._ask(folder=True)

    def _ask(self, *, folder: bool) -> None:
        choice = self._choice
        ask_for_model(self.window(), choice.load_path, folder=folder, start=choice.usual_folder)

    def _show_status(self, status: EngineStatus) -> None:
        match status.phase:
            case Phase.PREPARING | Phase.LOADING:
                words = tr("Loading… {share:.0%}").format(share=status.fraction)
            case Phase.NO_MODEL | Phase.BROKEN:
                words = tr("No model")
            case _:
                words = status.model_name
        metrics = QFontMetrics(self.font())
        shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, _WIDEST)
        self.setText(f"{shown} {_OPENER}")
        self.setAccessibleName(tr("Model: {name}").format(name=words))


def _add_heading(menu: QMenu, words: str) -> None:
    """Add a line that cannot be chosen: many styles draw a section without its words."""
    menu.addAction(words).setEnabled(False)
