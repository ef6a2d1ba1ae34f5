"""A part of a page: a title, what belongs to it, and what can be done with the whole of it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QWidget

from app.theme.tokens import GAP
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label, say

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
        self._line = hbox((self.title, 1), spacing=GAP)
        self.column = vbox(spacing=GAP, margins=0)
        vbox(
            vbox(self._line, self.about, spacing=2),
            self.column,
            to=self,
            spacing=12,
            margins=(SIDE, 16, SIDE, 18),
        )
        self.say(about)

    def say(self, about: str) -> None:
        """Show another sentence below the title."""
        say(self.about, about)

    def add_beside_title(self, widget: QWidget) -> None:
        """Put something into the line with the title."""
        self._line.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)


def divider(parent: QWidget) -> QFrame:
    """A thin line between two parts of a card."""
    line = QFrame(parent)
    line.setProperty("look", "line")
    line.setFixedHeight(1)
    return line
