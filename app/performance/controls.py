"""The row above the graphs: how far back they show, freezing, and the tables."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QMenu, QSizePolicy, QToolButton, QWidget

from app.performance.frames import PaintedView
from app.performance.sight import Sight, Window
from app.theme.icons import IconButton
from app.widgets.boxes import hbox
from engine.language import tr

_NARROWEST = 48


class Controls(QWidget):
    """Changes a `Sight`, and offers the table behind each of the views."""

    def __init__(self, sight: Sight, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sight = sight
        sight.changed.connect(self._show)
        sight.turned.connect(self._show)
        self._windows = QButtonGroup(self)
        self.buttons: dict[Window, QToolButton] = {each: self._choice(each) for each in Window}
        row = hbox(*self.buttons.values(), 1, to=self, spacing=2, margins=0)
        self.freeze = IconButton("pause", tr("Freeze the graphs"), self)
        self.freeze.setCheckable(True)
        self.freeze.toggled.connect(self._freeze)
        self.tables = IconButton("table", tr("Show as table"), self)
        self.tables.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        for each in (self.freeze, self.tables):
            row.addWidget(each)

    def offer(self, views: list[PaintedView]) -> None:
        """List the views whose table can be shown: those that are not hidden then."""
        menu = QMenu(self)
        for view in views:
            action = menu.addAction(view.accessibleName(), view.table_asked.emit)
            menu.aboutToShow.connect(
                lambda action=action, view=view: action.setVisible(not view.isHidden())
            )
        self.tables.setMenu(menu)

    def _choice(self, window: Window) -> QToolButton:
        button = QToolButton(self)
        button.setText(tr(window))
        button.setProperty("look", "quiet")
        button.setCheckable(True)
        button.setChecked(window is self._sight.window)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        # Long words give way rather than widen the panel; the tooltip says them in full.
        button.setMinimumWidth(_NARROWEST)
        button.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        names = {
            Window.MINUTE: tr("Show the last minute"),
            Window.FIVE: tr("Show the last five minutes"),
            Window.ANSWER: tr("Show this answer"),
        }
        button.setAccessibleName(names[window])
        button.setToolTip(names[window])
        button.clicked.connect(lambda: self._sight.show(window))
        self._windows.addButton(button)
        return button

    def _freeze(self, frozen: bool) -> None:
        if frozen is not self._sight.frozen:
            self._sight.freeze(frozen=frozen)

    def _show(self) -> None:
        """Follow what was chosen, here or elsewhere."""
        self.buttons[self._sight.window].setChecked(True)
        frozen = self._sight.frozen
        self.freeze.setChecked(frozen)
        name = tr("Resume") if frozen else tr("Freeze the graphs")
        self.freeze.setAccessibleName(name)
        self.freeze.setToolTip(name)
        self.freeze.set_icon("play" if frozen else "pause", "accent" if frozen else "muted")
