"""A list of conversations on a real history, and the sidebar on top of it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.conversations.model import ConversationModel
from app.conversations.sections import ConversationSection
from app.conversations.sidebar import Sidebar
from app.history import Conversation, HistoryStore
from app.session.conversation_list import ConversationList

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _no_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a few minutes old is of today, also just after midnight: what is later is, too."""
    today = datetime.fromtimestamp(time.time() - DAY / 24).astimezone().date()
    monkeypatch.setattr("app.conversations.model._today", lambda: today)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    with HistoryStore.open(tmp_path / "history.sqlite3") as opened:
        yield opened


@pytest.fixture
def add(store: HistoryStore, tmp_path: Path) -> Callable[..., Conversation]:
    """Adds a conversation that was last used some days ago."""

    def make(title: str, days_ago: float = 0.0) -> Conversation:
        made = store.conversations.create(title)
        with sqlite3.connect(tmp_path / "history.sqlite3") as other:
            other.execute(
                "UPDATE conversation SET updated_at = ? WHERE id = ?",
                (time.time() - days_ago * DAY, made.id),
            )
        other.close()
        return made

    return make


@pytest.fixture
def listed(store: HistoryStore, qapp: QApplication) -> ConversationList:  # noqa: ARG001
    return ConversationList(store)


@pytest.fixture
def sidebar(listed: ConversationList, qtbot: QtBot) -> Sidebar:
    """With nothing read yet: `listed.refresh()` fills it."""
    shown = Sidebar(listed, QWidget())
    qtbot.addWidget(shown)
    shown.resize(256, 700)
    shown.show()
    shown.activateWindow()
    qtbot.waitExposed(shown)
    return shown


@pytest.fixture
def rows() -> Callable[[ConversationModel], list[str]]:
    """The rows as text: headings in brackets, folders with a plus or minus."""

    def look(model: ConversationModel) -> list[str]:
        return [_text(model.entry(model.index(row))) for row in range(model.rowCount())]

    return look


def _text(entry: ConversationSection | Conversation | None) -> str:
    if isinstance(entry, ConversationSection):
        if entry.folder is None:
            return f"[{entry.title}]"
        return f"{'-' if entry.is_open else '+'}{entry.title} {len(entry.conversations)}"
    assert entry is not None
    return entry.title
