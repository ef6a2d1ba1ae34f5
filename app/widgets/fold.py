"""A line that opens and closes what is below it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.theme.fonts import keep_sized, scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.widgets.boxes import hbox, vbox
from engine.language import tr

_ARROW = 14


class Fold(QWidget):
    """Parts go into `column`, what acts on them into `line`, beside the button that opens it.

    Args:
        title: translated.
        opened: whether it is open to begin with.
    """

    toggled = Signal(bool)

    def __init__(self, title: str, *, opened: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = QToolButton(self, toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setText(title)
        self.button.setProperty("look", "quiet")
        keep_sized(
            self.button, lambda: self.button.setIconSize(QSize(scaled(_ARROW), scaled(_ARROW)))
        )
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.body = QWidget(self)
        self.column = vbox(to=self.body, margins=0)
        self.line = hbox(self.button, 1, margins=0)
        vbox(self.line, self.body, to=self, margins=0)
        self.opened: bool = opened
        """True if what is below the line is on show."""
        self.button.clicked.connect(lambda: self.set_open(opened=not self.opened))
        self.set_open(opened=opened)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour the arrow with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._show_arrow()

    def set_open(self, *, opened: bool) -> None:
        """Show what is below the line, or hide it."""
        self.opened = opened
        self.body.setVisible(opened)
        said = tr("{title}, open") if opened else tr("{title}, closed")
        self.button.setAccessibleName(said.format(title=self.button.text()))
        self._show_arrow()
        self.toggled.emit(opened)

    def _show_arrow(self) -> None:
        name = "chevron-down" if self.opened else "chevron-right"
        self.button.setIcon(icon(name, current().muted))
