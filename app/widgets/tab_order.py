"""Places in the order of Tab for widgets that are made while the window is in use."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def tab_before(following: QWidget, new: Iterable[QWidget]) -> None:
    """Let Tab go through new widgets before it comes to `following`, not at the very end."""
    before = following.previousInFocusChain()
    while before is not None and not before.focusPolicy() & Qt.FocusPolicy.TabFocus:
        before = before.previousInFocusChain()
    if before is not None:
        for first, second in pairwise((before, *new)):
            QWidget.setTabOrder(first, second)
