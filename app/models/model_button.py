"""The header button that names the model; its menu loads another one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QFontMetrics
from PySide6.QtWidgets import QLineEdit, QMenu, QToolButton, QWidget, QWidgetAction

from app.engine_link.status import EngineStatus, Phase
from app.models.choice import ModelChoice
from app.models.model_texts import kind_beside
from app.models.server_book import ServerBook
from app.models.server_menu import ServerMenu
from app.theme.keys import with_keys
from app.widgets.text_button import OPENER
from engine.language import tr
from engine.language.units import file_size

_WIDEST = 220
_MANY = 6
"""Models from which on there is a field to search them."""


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
        self._choice.look()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.mapToGlobal(QPoint(0, self.height() + 4)))

    def make_menu(self) -> QMenu:
        """The menu as it is now."""
        menu = QMenu(self, toolTipsVisible=True)
        menu.setAccessibleName(tr("Model"))
        _add_heading(menu, tr("Model"))
        group = QActionGroup(menu)
        models = _ModelActions(menu, group, self._choice)
        self._choice.listed.connect(models.fill)
        self.servers.add_models(menu, group)
        menu.addSeparator()
        menu.addAction(tr("Open a model file…"), self.ask_file)
        menu.addAction(tr("Open a model folder…"), self.ask_folder)
        menu.addAction(tr("Find more models…"), self.more_asked.emit)
        self.servers.add_servers(menu)
        menu.addSeparator()
        running = menu.addAction(tr("Mode, draft and GPU memory…"), self.running_asked.emit)
        running.setEnabled(self._choice.running.possible)
        present = self._choice.bridge.status.model
        start = menu.addAction(tr("Always start with this model"), self._choose_start)
        start.setToolTip(tr("Without it, a start loads the model that was used last."))
        start.setCheckable(True)
        start.setChecked(present is not None and present == self._choice.starts_with)
        start.setEnabled(present is not None)
        unload = menu.addAction(tr("Unload model"), self._choice.unload)
        unload.setEnabled(self._choice.bridge.status.plan is not None)
        return menu

    def _choose_start(self) -> None:
        present = self._choice.bridge.status.model
        chosen = present == self._choice.starts_with
        self._choice.start_with(None if chosen else present)

    def ask_file(self) -> None:
        """Let the user choose a GGUF file."""
        self._ask(folder=False)

    def ask_folder(self) -> None:
        """Let the user choose a folder with a model, or with several."""
        self._ask(folder=True)

    def _ask(self, *, folder: bool) -> None:
        from app.models.file_chooser import ask_for_model  # not for the first picture

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
        self.setText(f"{shown} {OPENER}")
        self.setAccessibleName(tr("Model: {name}").format(name=words))


class _ModelActions(QObject):
    """The models in a menu: those known at once, the rest as they are found on the disk.

    Where there are many, a field finds those whose names have the words in it.
    """

    def __init__(self, menu: QMenu, group: QActionGroup, choice: ModelChoice) -> None:
        super().__init__(menu)
        self._menu, self._group, self._choice = menu, group, choice
        self._shown: dict[Path, QAction] = {}
        self.field = QLineEdit(menu)
        self.field.setPlaceholderText(tr("Search models"))
        self.field.setAccessibleName(tr("Search models"))
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._find)
        self._search = QWidgetAction(menu)
        self._search.setDefaultWidget(self.field)
        menu.addAction(self._search)
        self._end = menu.addSeparator()
        self._end.setVisible(False)
        self.fill()

    def fill(self) -> None:
        """Add what is not there yet."""
        wanted = self._choice.bridge.status.wanted
        for model in self._choice.models:
            if model.head or model.path in self._shown:  # a head cannot answer
                continue
            kind = kind_beside(model.name, model.kind)
            parts = (model.name, kind, file_size(model.weight_bytes))
            words = "  \N{MIDDLE DOT}  ".join(part for part in parts if part)
            action = QAction(words, self._menu)
            action.triggered.connect(partial(self._choice.load, model.path))
            action.setToolTip(str(model.path))
            action.setCheckable(True)
            action.setChecked(wanted is not None and wanted.model == model.path)
            self._menu.insertAction(self._end, action)
            self._group.addAction(action)
            self._shown[model.path] = action
        self._search.setVisible(len(self._shown) >= _MANY)
        self._find(self.field.text())

    def _find(self, text: str) -> None:
        words = text.casefold().split()
        for action in self._shown.values():
            name = action.text().casefold()
            action.setVisible(all(word in name for word in words))


def _add_heading(menu: QMenu, words: str) -> None:
    """Add a line that cannot be chosen: many styles draw a section without its words."""
    menu.addAction(words).setEnabled(False)
