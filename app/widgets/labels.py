"""Plain text labels, and a row of texts with a control beside them."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QBoxLayout, QFrame, QLabel, QWidget

from app.widgets.boxes import hbox, vbox

_SIDE_BY_SIDE = 28
"""Narrower than so many letters "m", the control goes below the texts."""
_TEXTS = 0.54
"""Share of the width that texts take, the same in every row."""
_APART = 20


class LabelledRow(QFrame):
    """Texts on the left, a control on the right; below where room is short, or it is `wide`."""

    def __init__(
        self, label: str, about: str, control: QWidget, parent: QWidget, *, wide: bool = False
    ) -> None:
        super().__init__(parent)
        self._wide = wide
        self.setProperty("look", "row")
        self._words = f"{label} {about}".casefold()
        self.label = plain_label(label, self)
        self.label.setBuddy(control)
        self.about = plain_label(about, self, "muted")
        self._texts = vbox(self.label, self.about, spacing=2)
        self.controls = hbox(control, spacing=8)
        texts = vbox(1, self._texts, 1, spacing=0)  # together beside a high control
        self._layout = hbox(
            (texts, 1), self.controls, to=self, spacing=_APART, margins=(0, 12, 0, 12)
        )

    def says(self, words: list[str]) -> bool:
        """Return whether all of these are in its texts."""
        return all(word in self._words for word in words)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side by side or one above the other."""
        super().resizeEvent(event)
        narrowest = _SIDE_BY_SIDE * self.fontMetrics().horizontalAdvance("m")
        spare = 0 if self.width() < narrowest else round(self.width() * (1 - _TEXTS))
        control = self.controls.sizeHint().width() + _APART
        narrow = self._wide or control > spare
        self._texts.setContentsMargins(0, 0, spare if narrow else spare - control, 0)
        direction = QBoxLayout.Direction
        self._layout.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        self._layout.setSpacing(8 if narrow else _APART)
        aside = Qt.AlignmentFlag.AlignLeft if narrow and not self._wide else Qt.AlignmentFlag(0)
        self._layout.setAlignment(self.controls, aside)


def part_title(text: str, part: QWidget) -> QLabel:
    """Return a title to stand above a part of the window, which screen readers call so too."""
    label = QLabel(text, part.parentWidget())
    label.setProperty("look", "title")
    part.setAccessibleName(text)
    return label


def say(label: QLabel | QAbstractButton, words: str, look: str | None = None) -> None:
    """Show words, or nothing where there are none; `look`: in this look of the style sheet."""
    if label.text() != words:
        label.setText(words)
    label.setVisible(bool(words))
    if look is not None and label.property("look") != look:
        label.setProperty("look", look)
        label.style().unpolish(label)
        label.style().polish(label)


def plain_label(text: str, parent: QWidget, look: str = "") -> QLabel:
    """A wrapped text in a look of the style sheet."""
    label = QLabel(text, parent, textFormat=Qt.TextFormat.PlainText, wordWrap=True)
    label.setProperty("look", look)
    return label
