"""A button with words."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.widgets.enter import enter_presses

OPENER = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
"""Stands behind words that open a menu."""


class TextButton(QPushButton):
    """A button that Enter presses while it has the keyboard, and in a dialog only then."""

    def __init__(self, words: str, parent: QWidget | None) -> None:
        super().__init__(words, parent, autoDefault=False)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Take Enter before the dialog's usual button does."""
        if not enter_presses(event):
            super().keyPressEvent(event)


def text_button(
    words: str,
    parent: QWidget | None,
    call: Callable[[], object] | None = None,
    *,
    look: str = "",
) -> QPushButton:
    """Return a button with its look, and what it does.

    Args:
        words: the words, translated.
        parent: the widget that it lies in.
        call: what a click calls.
        look: a look of the style sheet.
    """
    button = TextButton(words, parent)
    button.setProperty("look", look)
    if call is not None:
        button.clicked.connect(call)
    return button
