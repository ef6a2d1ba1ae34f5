"""The bar above the messages in which words of the conversation are looked for."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QWidget

from app.theme.icons import IconButton
from app.widgets.boxes import hbox
from app.widgets.escape import claims_escape
from engine.language import number, tr


class _Field(QLineEdit):
    """Enter goes on, Shift+Enter goes back, Esc ends the search."""

    stepped = Signal(int)
    left = Signal()

    def event(self, event: QEvent) -> bool:
        """Esc is for the search here, whatever else it does in the window."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.stepped.emit(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        else:
            super().keyPressEvent(event)


class FindBar(QFrame):
    """A field, how many matches there are, and buttons to go from one to the next."""

    changed = Signal(str)
    stepped = Signal(int)
    """Go so many matches on."""
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self.field = _Field(self)
        self.field.setPlaceholderText(tr("Find in this conversation"))
        self.field.setAccessibleName(tr("Find in this conversation"))
        self._count = QLabel(self)
        self._count.setProperty("look", "muted")
        self.previous = IconButton("left", tr("Previous match"), self, shortcut="Shift+Enter")
        self.next = IconButton("right", tr("Next match"), self, shortcut="Enter")
        self._close = IconButton("close", tr("Close search"), self, shortcut="Esc")
        hbox(
            (self.field, 1),
            self._count,
            self.previous,
            self.next,
            self._close,
            to=self,
            spacing=6,
            margins=(8, 6, 8, 6),
        )
        self.field.textChanged.connect(self.changed)
        self.field.stepped.connect(self.stepped)
        self.field.left.connect(self.closed)
        self.previous.clicked.connect(lambda: self.stepped.emit(-1))
        self.next.clicked.connect(lambda: self.stepped.emit(1))
        self._close.clicked.connect(self.closed)
        self.show_count(0, 0)
        self.hide()

    @property
    def words(self) -> str:
        """Return which match of how many is shown."""
        return self._count.text()

    def show_count(self, place: int, count: int) -> None:
        """Say which match of how many is shown."""
        text = tr("{n} of {all}").format(n=number(place), all=number(count))
        missing = tr("No matches") if self.field.text().strip() else ""
        self._count.setText(text if count else missing)
        for button in (self.previous, self.next):
            button.setEnabled(count > 0)
