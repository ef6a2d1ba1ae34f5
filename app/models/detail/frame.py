"""The frame of every detail: a name, a line below it, parts that follow, and buttons that stay."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QWidget

from app.widgets.boxes import vbox
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label
from app.widgets.scroller import scroller
from app.widgets.terms import explained
from app.widgets.text_button import text_button

_SIDE = 18
_ENDS = re.compile(r"([/\\_.-]|[^/\\_.-]{20})")
"""Lines may end behind these."""
_GAP = 12


class DetailFrame(QWidget):
    """A column that scrolls, and below it the buttons.

    Args:
        name: the name for screen readers.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.title = plain_label("", self, "heading")
        self.about = plain_label("", self, "muted")
        self._inside = QWidget(self)
        self.column = vbox(
            vbox(self.title, self.about, spacing=2),
            to=self._inside,
            spacing=_GAP,
            margins=(_SIDE, 16, _SIDE, _SIDE),
        )
        self.scroller = scroller(self._inside, self)
        self._line = QFrame(self)
        self._line.setProperty("look", "line")
        self._line.setFixedHeight(1)
        self.buttons = FlowLayout(spacing=8)
        self.above_buttons = vbox(spacing=6)
        vbox(
            (self.scroller, 1),
            self._line,
            vbox(self.above_buttons, self.buttons, spacing=8, margins=(_SIDE, 12, _SIDE, 14)),
            to=self,
            spacing=0,
            margins=0,
        )

    def add_button(self, words: str, *, look: str = "") -> QPushButton:
        """Add a button that stays on show."""
        button = text_button(words, self, look=look)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.buttons.addWidget(button)
        return button

    def section(self, words: str) -> QLabel:
        """The title of a part."""
        label = QLabel(words, self)
        label.setProperty("look", "title")
        self.column.addWidget(label)
        return label


class Facts(QWidget):
    """Names and values in two columns."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._labels: list[tuple[QLabel, QLabel]] = []
        self.shown: tuple[tuple[str, str], ...] = ()

    def show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show the facts that have a value."""
        self.shown = tuple((name, value) for name, value in facts if value)
        while len(self._labels) < len(self.shown):
            self._add()
        for number, (name, value) in enumerate(self._labels):
            there = number < len(self.shown)
            name.setVisible(there)
            value.setVisible(there)
            if there:
                name.setText(self.shown[number][0])
                name.setToolTip(explained(self.shown[number][0]))
                value.setText(self.shown[number][1])
        self.setVisible(bool(self.shown))

    def _add(self) -> None:
        name, value = QLabel(self), plain_label("", self)
        name.setProperty("look", "muted")
        name.setBuddy(value)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        line = len(self._labels)
        self._grid.addWidget(name, line, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(value, line, 1)
        self._labels.append((name, value))


def breakable(text: str) -> str:
    """The text with places where a line may end: addresses and paths have none of their own."""
    parts = _ENDS.split(text)
    return "".join(part if _ENDS.match(part) is None else f"{part}\u200b" for part in parts)
