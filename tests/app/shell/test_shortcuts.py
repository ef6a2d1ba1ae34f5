"""Keys mean one thing in the whole window."""

from __future__ import annotations

from collections import defaultdict

from desk import Desk
from PySide6.QtGui import QAction, QKeySequence, QShortcut

_LOCAL = {QKeySequence(key).toString() for key in ("Ctrl+C", "Del", "F2", "Return")}
"""What every list and every text does with its own content."""


def test_no_shortcut_is_used_twice(desk: Desk) -> None:
    window = desk.assembly.window
    users: dict[str, set[str]] = defaultdict(set)
    for action in window.findChildren(QAction):
        for key in action.shortcuts():
            users[key.toString()].add(action.text())
    for shortcut in window.findChildren(QShortcut):
        users[shortcut.key().toString()].add(shortcut.objectName() or "a shortcut")
    twice = {key: names for key, names in users.items() if len(names) > 1 and key not in _LOCAL}
    assert "Ctrl+N" in users
    assert not twice
