"""The list of commands."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from app.shell.palette import CommandPalette

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def palette(qtbot: QtBot, done: list[str]) -> CommandPalette:
    actions = []
    for name in ("New chat", "Search conversations", "Stop the answer"):
        action = QAction(name)
        action.triggered.connect(lambda _, name=name: done.append(name))
        actions.append(action)
    result = CommandPalette(actions)
    result.kept = actions  # type: ignore[attr-defined]
    qtbot.addWidget(result)
    result.open()
    return result


def visible(palette: CommandPalette) -> list[str]:
    items = (palette.list.topLevelItem(row) for row in range(palette.list.topLevelItemCount()))
    return [item.text(0) for item in items if not item.isHidden()]


def test_typing_filters_and_enter_runs(
    palette: CommandPalette, qtbot: QtBot, done: list[str]
) -> None:
    assert len(visible(palette)) == 3
    qtbot.keyClicks(palette.field, "ans st")
    assert visible(palette) == ["Stop the answer"]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert done == ["Stop the answer"]
    assert not palette.isVisible()


def test_arrows_choose(palette: CommandPalette, qtbot: QtBot, done: list[str]) -> None:
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert done == ["Search conversations"]


def test_nothing_found_runs_nothing(palette: CommandPalette, qtbot: QtBot, done: list[str]) -> None:
    qtbot.keyClicks(palette.field, "teleport")
    assert visible(palette) == []
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert done == []
    assert palette.isVisible()
