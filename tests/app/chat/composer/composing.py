"""What tests of the message field share: files, pastes, a meter, models with little context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtWidgets import QApplication

OpenDesk = Callable[[Script | None], Desk]


def words(count: int) -> str:
    """Return so many words of a token each."""
    return "word " * (count - 1) + "word"


def attach(desk: Desk, path: Path) -> None:
    before = len(desk.chat.outgoing.attachments)
    desk.chat.outgoing.attach([path])
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == before + 1)


def paste(desk: Desk, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    desk.chat.composer.field.insertFromMimeData(data)


def tabbed_back(desk: Desk, steps: int) -> list[str]:
    """Return the names of what Shift+Tab comes to from the field."""
    desk.chat.composer.field.setFocus()
    met = []
    for _ in range(steps):
        focus = QApplication.focusWidget()
        assert focus is not None
        desk.bot.keyClick(focus, Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
        reached = QApplication.focusWidget()
        assert reached is not None
        met.append(reached.accessibleName())
    return met


def fills(desk: Desk, tokens: int) -> None:
    """Wait until the meter says so many."""

    def shown() -> bool:
        fill = desk.chat.composer.meter.fill
        return fill is not None and fill.used == tokens

    desk.bot.waitUntil(shown)


def small(context: int, limit: int = 0) -> Script:
    script = Script()
    script.plan = replace(script.plan, context=context, context_limit=limit)
    return script


def opened(open_desk: OpenDesk, script: Script) -> Desk:
    desk = open_desk(script)
    desk.ready()
    return desk


def three_turns(desk: Desk) -> None:
    """Six messages of five tokens each."""
    desk.script.answer = words(5)
    for _ in range(3):
        desk.type_and_send(words(5))
        desk.answered()
