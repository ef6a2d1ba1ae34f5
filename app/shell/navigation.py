"""The rows that lead to the pages."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QPushButton, QWidget

from app.shell.page_names import ICONS, KEYS, PageName
from app.signals import TypedSignal
from app.theme.icons import icon
from app.theme.keys import with_keys
from app.theme.theme import current
from app.widgets.boxes import vbox
from engine.language import tr


class Navigation(QWidget):
    """One button a page; the one on show is checked."""

    chosen = TypedSignal[PageName]()
    """The `PageName`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons: dict[PageName, QPushButton] = {}
        column = vbox(to=self, spacing=2, margins=0)
        for name in PageName:
            button = QPushButton(tr(name.value), self)
            button.setProperty("look", "row")
            button.setCheckable(True)
            button.setToolTip(with_keys(tr(name.value), KEYS[name]))
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.clicked.connect(lambda _=False, name=name: self.chosen.emit(name))
            self.buttons[name] = button
            column.addWidget(button)
        self.recolour()

    def show_page(self, shown: PageName | None) -> None:
        """Mark the page on show."""
        for name, button in self.buttons.items():
            button.setChecked(name is shown)

    def recolour(self) -> None:
        """Draw icons in the theme's colours."""
        for name, button in self.buttons.items():
            button.setIcon(icon(ICONS[name], current().text))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self.recolour()
