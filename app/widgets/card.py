"""A part of a page: a title, what belongs to it, and what can be done with the whole of it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.theme.tokens import GAP
from app.widgets.labels import plain_label

SIDE = 20
"""Between the edge and what is in the card."""


class Card(QFrame):
    """A box with a title; the parts go into `column`, what acts on all of them beside the title.

    Args:
        title: translated.
        about: a sentence below it; may be empty.
    """

    def __init__(self, title: str, about: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "section")
        self.setAccessibleName(title)
        self.title = QLabel(title, self)
        self.title.setProperty("look", "section-title")
        self.about = plain_label("", self, "small")
        self._line = QHBoxLayout()
        self._line.setSpacing(GAP)
        self._line.addWidget(self.title, 1)
        self.column = QVBoxLayout()
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(GAP)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SIDE, 16, SIDE, 18)
        layout.setSpacing(12)
        head = QVBoxLayout()
        head.setSpacing(2)
        head.addLayout(self._line)
        head.addWidget(self.about)
        layout.addLayout(head)
        layout.addLayout(self.column)
        self.say(about)

    def say(self, about: str) -> None:
        """Show another sentence below the title."""
        self.about.setText(about)
        self.about.setVisible(bool(about))

    def add_beside_title(self, widget: QWidget) -> None:
        """Put something into the line with the title."""
        self._line.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)


def divider(parent: QWidget) -> QFrame:
    """A thin line between two parts of a card."""
    line = QFrame(parent)
    line.setProperty("look", "line")
    line.setFixedHeight(1)
    return line
