"""Thousands of conversations: a change costs what is in sight, whatever is in the list."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot
from stopwatch import least

from app.conversations.delegate import ConversationDelegate
from app.conversations.model import ConversationModel
from app.conversations.sidebar import Sidebar
from app.history import Conversation
from app.session.conversation_list import ConversationList

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

MANY = 5_000


NOON = datetime(2026, 5, 13, 12).astimezone()


@pytest.fixture(autouse=True)
def _a_day_in_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the headings stand must not depend on when the tests run."""
    monkeypatch.setattr("app.conversations.model._today", NOON.date)


def filled(listed: ConversationList, today: int = 12) -> list[Conversation]:
    """One an hour, `today` of them under today's heading."""
    latest = NOON.replace(hour=0).timestamp() + 3600.0 * (today - 1)
    for number in range(MANY):
        listed.put(Conversation(number + 1, f"Conversation {number}", latest - 3600.0 * number))
    return listed.newest_first()


def test_a_change_asks_for_the_rows_in_sight_only(
    sidebar: Sidebar, listed: ConversationList, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = filled(listed)
    view = sidebar.list
    qtbot.waitUntil(view.isVisible)
    asked = [0]
    entry, paint = ConversationModel.entry, ConversationDelegate.paint

    def counting(self: ConversationModel, index: object) -> object:
        asked[0] += 1
        return entry(self, index)  # type: ignore[arg-type]

    monkeypatch.setattr(ConversationModel, "entry", counting)
    painted = [0]

    def painting(*arguments: object) -> None:
        painted[0] += 1
        paint(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ConversationDelegate, "paint", painting)
    listed.touch(everything[3_000])
    qtbot.waitUntil(lambda: painted[0] > 0)
    in_sight = view.viewport().height() // view.row_height + 2
    assert asked[0] < 20 * in_sight
    assert view.rows.entry(view.rows.index(1)) == listed.get(everything[3_000].id)


@pytest.mark.release(reason="a stopwatch")
def test_the_whole_list_is_arranged_within_a_frame(
    listed: ConversationList, qtmodeltester: ModelTester
) -> None:
    filled(listed)
    model = ConversationModel(listed)

    def once() -> float:
        start = time.thread_time()  # waiting for a core is no work
        model.rebuild()
        return time.thread_time() - start

    assert least(once, 0.016) < 0.016
    qtmodeltester.check(model, force_py=True)


def test_end_and_home_reach_what_can_be_reached(
    sidebar: Sidebar, listed: ConversationList, qtbot: QtBot
) -> None:
    everything = filled(listed)
    view = sidebar.list
    qtbot.waitUntil(view.isVisible)
    sidebar.focus_list()

    def at(key: Qt.Key) -> object:
        qtbot.keyClick(view, key)
        return view.rows.entry(view.currentIndex())

    assert at(Qt.Key.Key_End) == everything[-1]
    assert view.viewport().rect().contains(view.visualRect(view.currentIndex()))
    assert at(Qt.Key.Key_Home) == everything[0]
    assert view.currentIndex().row() == 1, "the heading cannot be reached"
    assert at(Qt.Key.Key_Up) == everything[0]
    assert at(Qt.Key.Key_Down) == everything[1]


@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_pages_reach_what_can_be_reached(
    beside: int, sidebar: Sidebar, listed: ConversationList, qtbot: QtBot
) -> None:
    """A page down to just above, onto and just below a heading, and back again."""
    view = sidebar.list
    sidebar.resize(sidebar.width(), 800)
    listed.put(Conversation(MANY + 1, "Gives rows their height", NOON.timestamp()))
    qtbot.waitUntil(view.isVisible)
    page = view.viewport().height() // view.row_height - 1
    assert page > 10
    listed.put(Conversation(MANY + 1, "Very old", 0.0))
    everything = filled(listed, today=page - beside)
    sidebar.focus_list()

    def row(key: Qt.Key) -> int:
        qtbot.keyClick(view, key)
        assert isinstance(view.rows.entry(view.currentIndex()), Conversation)
        return view.currentIndex().row()

    assert row(Qt.Key.Key_Home) == 1
    down = row(Qt.Key.Key_PageDown)
    onto_heading = beside == 0
    assert down == 1 + page + onto_heading, "a heading is passed over"
    shown = view.rows.entry(view.currentIndex())
    assert shown == everything[down - 1 - (down > page - beside)]
    assert row(Qt.Key.Key_PageUp) == 1 + onto_heading
    assert row(Qt.Key.Key_PageUp) == 1, "the topmost, the heading above it cannot be reached"
