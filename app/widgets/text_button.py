"""A button with words."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QPushButton, QWidget

OPENER = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
"""Stands behind words that open a menu."""


def text_button(
    words: str,
    parent: QWidget | None,
    call: Callable[[], object] | None = None,
    *,
    look: str = "",
) -> QPushButton:
    """Return a button that Return in a dialog does not press by itself.

    Args:
        words: the words, translated.
        parent: the widget that it lies in.
        call: what a click calls.
        look: a look of the style sheet.
    """
    button = QPushButton(words, parent, autoDefault=False)
    button.setProperty("look", look)
    if call is not None:
        button.clicked.connect(call)
    return button
