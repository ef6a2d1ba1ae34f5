"""Buttons of which one is checked, as the keyboard goes through them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup


def keep_tab_on_checked(group: QButtonGroup) -> Callable[[], None]:
    """Let Tab go to the checked button, wherever the keyboard came from; arrows go to the others.

    Until one of them has had the focus, Qt goes to the first, checked or not. All buttons have to
    be visible.

    Returns:
        what is to be called when buttons were added beside one that stays checked.
    """

    def follow() -> None:
        for button in group.buttons():
            policy, tab = button.focusPolicy(), Qt.FocusPolicy.TabFocus
            button.setFocusPolicy(policy | tab if button.isChecked() else policy & ~tab)

    group.buttonToggled.connect(lambda _button, on: follow() if on else None)
    if group.checkedButton() is not None:
        follow()
    return follow
