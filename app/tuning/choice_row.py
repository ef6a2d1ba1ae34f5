"""One of several choices: a radio button with a sentence below it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.theme.fonts import keep_sized, scaled
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.radio_button import RadioButton

_INDENT = 28
"""Pixel where the words of the button begin."""


class ChoiceRow(QWidget):
    """A click on the sentence chooses too. `about` may be empty."""

    def __init__(self, label: str, about: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._label = label
        self.button = RadioButton(self)
        self.button.setAccessibleName(label)
        self.button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.about = plain_label("", self, "small")
        keep_sized(self.about, lambda: self.about.setContentsMargins(scaled(_INDENT), 0, 0, 0))
        self.note = QLabel(self, textFormat=Qt.TextFormat.PlainText)
        self.note.setProperty("look", "muted")
        self.note.hide()
        vbox(
            hbox((self.button, 1), self.note, spacing=8), self.about, to=self, spacing=2, margins=0
        )
        self.say(about)

    def say(self, about: str) -> None:
        """Show another sentence."""
        say(self.about, about)
        self._describe()

    def tell(self, note: str) -> None:
        """Show a few words at the end of the line."""
        say(self.note, note)
        self._describe()

    @property
    def room_for_note(self) -> int:
        """Return the logical pixels that the words at the end take."""
        return self.note.sizeHint().width() + 8 if self.note.text() else 0

    def _describe(self) -> None:
        texts = (self.note.text(), self.about.text())
        self.button.setAccessibleDescription("\n".join(text for text in texts if text))

    def fit(self, width: int) -> None:
        """Shorten a label that is wider than so many logical pixels."""
        metrics = self.button.fontMetrics()
        label = self._label.replace("&", "&&")
        shown = metrics.elidedText(label, Qt.TextElideMode.ElideMiddle, width - scaled(_INDENT))
        self.button.setText(shown)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The sentence is part of what can be clicked."""
        if event.button() is Qt.MouseButton.LeftButton and self.button.isEnabled():
            self.button.setFocus(Qt.FocusReason.MouseFocusReason)
            self.button.click()
