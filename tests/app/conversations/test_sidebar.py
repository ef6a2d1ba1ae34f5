"""The left area, by keyboard and mouse, on a real history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QContextMenuEvent,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
)
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from app.conversations.model import ConversationModel
from app.conversations.sidebar import Sidebar
from app.history import Conversation, Hit
from app.session.conversation_list import ConversationList, Deletion
from app.widgets.painting import more_area

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

Add = Callable[..., Conversation]
Rows = Callable[[ConversationModel], list[str]]
_CTRL = Qt.KeyboardModifier.ControlModifier
_SHIFT = Qt.KeyboardModifier.ShiftModifier


def menu_of(sidebar: Sidebar) -> QMenu:
    (menu,) = [each for each in sidebar.findChildren(QMenu) if each.isVisible()]
    return menu


def texts(menu: QMenu) -> list[str]:
    return [each.text() for each in menu.actions() if not each.isSeparator()]


def pick(bot: QtBot, menu: QMenu, text: str) -> None:
    (action,) = [each for each in menu.actions() if each.text() == text]
    assert action.isEnabled()
    menu.setActiveAction(action)
    bot.keyClick(menu, Qt.Key.Key_Return)


def click(bot: QtBot, sidebar: Sidebar, conversation: Conversation, keys: object = None) -> None:
    view = sidebar.list
    place = view.visualRect(view.rows.index_of(conversation.id)).center()
    modifier = keys if isinstance(keys, Qt.KeyboardModifier) else Qt.KeyboardModifier.NoModifier
    bot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, modifier, place)


def write_name(bot: QtBot, sidebar: Sidebar, name: str) -> None:
    bot.waitUntil(lambda: sidebar.list.findChild(QLineEdit) is not None)
    editor = sidebar.list.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    editor.setText(name)
    bot.keyClick(editor, Qt.Key.Key_Return)
    bot.waitUntil(lambda: sidebar.list.currentIndex().data() == name)
    bot.waitUntil(sidebar.list.hasFocus)


def test_a_click_opens_and_ctrl_click_only_chooses(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one, two = add("One", 0.002), add("Two", 0.003)
    listed.refresh()
    opened: list[str] = []
    sidebar.opened.connect(lambda each: opened.append(each.title))
    click(qtbot, sidebar, one)
    assert opened == ["One"]
    click(qtbot, sidebar, two, _CTRL)
    assert opened == ["One"]
    assert [each.title for each in sidebar.list.chosen()] == ["One", "Two"]


def test_several_are_deleted_with_one_key_and_come_back(
    sidebar: Sidebar, listed: ConversationList, add: Add, rows: Rows, qtbot: QtBot
) -> None:
    for number in range(4):
        add(f"c{number}", 0.001 * number)
    listed.refresh()
    told: list[tuple[str, Deletion]] = []
    listed.deleted.connect(lambda words, deletion: told.append((words, deletion)))
    sidebar.focus_list()
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Down, _SHIFT)
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)
    assert rows(sidebar.list.rows) == ["[Today]", "c2", "c3"]
    assert told[0][0] == "2 conversations were deleted."
    listed.restore(told[0][1])
    assert rows(sidebar.list.rows) == ["[Today]", "c0", "c1", "c2", "c3"]


def test_renaming_pinning_and_folding_by_key(
    sidebar: Sidebar, listed: ConversationList, add: Add, rows: Rows, qtbot: QtBot
) -> None:
    add("One")
    listed.refresh()
    view = sidebar.list
    sidebar.focus_list()
    qtbot.keyClick(view, Qt.Key.Key_F2)
    write_name(qtbot, sidebar, "A better name")
    assert rows(view.rows) == ["[Today]", "A better name"]
    qtbot.keyClick(view, Qt.Key.Key_D, _CTRL)
    assert rows(view.rows) == ["[Pinned]", "A better name"]
    qtbot.keyClick(view, Qt.Key.Key_D, _CTRL)
    qtbot.keyClick(view, Qt.Key.Key_N, _CTRL | _SHIFT)
    write_name(qtbot, sidebar, "Work")
    assert rows(view.rows) == ["-Work 0", "[Today]", "A better name"]
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_M, _CTRL | _SHIFT)
    assert texts(menu_of(sidebar)) == ["Work", "New folder\u2026"]
    pick(qtbot, menu_of(sidebar), "Work")
    assert rows(view.rows) == ["-Work 1", "A better name"]
    qtbot.keyClick(view, Qt.Key.Key_Left)  # to the folder
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert rows(view.rows) == ["+Work 1"]
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert rows(view.rows) == ["-Work 1", "A better name"]
    qtbot.keyClick(view, Qt.Key.Key_Delete)
    assert rows(view.rows) == ["[Today]", "A better name"]


def test_the_menu_of_a_row(
    sidebar: Sidebar, listed: ConversationList, add: Add, rows: Rows, qtbot: QtBot
) -> None:
    one = add("One & only")
    listed.refresh()
    view = sidebar.list
    qtbot.waitUntil(lambda: not view.verticalScrollBar().isVisible())
    area = view.visualRect(view.rows.index_of(one.id))
    place = more_area(area).center()
    opened: list[object] = []
    sidebar.opened.connect(opened.append)
    qtbot.mouseMove(view.viewport(), place)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    menu = menu_of(sidebar)
    assert opened == []
    assert texts(menu)[:3] == ["Rename", "Pin", "Move to folder\tCtrl+Shift+M"]
    shown = {each.text(): each.shortcut().toString() for each in menu.actions()}
    assert (shown["Rename"], shown["Delete"]) == ("F2", "Del")
    (move,) = [each for each in menu.actions() if each.menu() is not None]
    menu.setActiveAction(move)
    qtbot.keyClick(menu, Qt.Key.Key_Right)
    into = move.menu()
    assert isinstance(into, QMenu)
    pick(qtbot, into, "New folder\u2026")
    assert rows(view.rows) == ["-New folder 1", "One & only"]


def test_the_menu_key(sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot) -> None:
    add("One", 0.001)
    add("Two", 0.002)
    listed.refresh()
    sidebar.focus_list()
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Down, _SHIFT)
    key = QContextMenuEvent(
        QContextMenuEvent.Reason.Keyboard,
        QPoint(3, 3),
        QPoint(3, 3),
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(sidebar.list.viewport(), key)
    menu = menu_of(sidebar)
    assert "Delete 2 conversations" in texts(menu)
    (rename,) = [each for each in menu.actions() if each.text() == "Rename"]
    assert not rename.isEnabled()
    menu.close()
    assert rename.isEnabled()


def test_dragging_onto_a_folder(
    sidebar: Sidebar, listed: ConversationList, add: Add, rows: Rows
) -> None:
    one = add("One")
    listed.refresh()
    folder = listed.create_folder("Work")
    assert folder is not None
    view = sidebar.list
    data = view.rows.mimeData([view.rows.index_of(one.id)])
    onto = view.visualRect(view.rows.folder_index(folder.id)).center()
    actions, left = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
    plain = Qt.KeyboardModifier.NoModifier
    for event in (
        QDragEnterEvent(onto, actions, data, left, plain),
        QDragMoveEvent(onto, actions, data, left, plain),
        QDropEvent(QPointF(onto), actions, data, left, plain),
    ):
        QApplication.sendEvent(view.viewport(), event)
        assert event.isAccepted()
    assert rows(view.rows) == ["-Work 1", "One"]


def test_other_things_are_not_dropped(sidebar: Sidebar, listed: ConversationList, add: Add) -> None:
    add("One")
    listed.refresh()
    data = QMimeData()
    data.setText("words")
    event = QDragEnterEvent(
        QPoint(20, 20),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(sidebar.list.viewport(), event)
    assert not event.isAccepted()


def test_searching_as_one_types(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    add("Alpha question", 0.001)
    add("Beta question", 0.002)
    listed.refresh()
    wanted: list[tuple[Hit, list[str]]] = []
    sidebar.hit_opened.connect(lambda hit, words: wanted.append((hit, words)))
    qtbot.keyClicks(sidebar.search, "beta")
    qtbot.waitUntil(sidebar.hits.isVisible)
    assert [row.hit.conversation.title for row in sidebar.hits.found.rows] == ["Beta question"]
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Down)
    assert sidebar.hits.hasFocus()
    qtbot.keyClick(sidebar.hits, Qt.Key.Key_Up)
    assert sidebar.search.hasFocus()
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Return)
    assert [(hit.conversation.title, words) for hit, words in wanted] == [
        ("Beta question", ["beta"])
    ]
    qtbot.keyClicks(sidebar.search, "!?")
    qtbot.waitUntil(lambda: not sidebar.hits.isVisible())
    (said,) = [each for each in sidebar.findChildren(QLabel) if "No results" in each.text()]
    assert said.isVisible()
    assert said.text() == "No results for \u201cbeta!?\u201d."
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Escape)
    assert sidebar.search.text() == ""
    assert sidebar.list.isVisible()


def test_escape_in_the_results_ends_the_search_and_nothing_else(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    add("Alpha")
    listed.refresh()
    stop = QAction(sidebar)
    stop.setShortcut("Esc")
    stopped: list[bool] = []
    stop.triggered.connect(lambda: stopped.append(True))
    sidebar.addAction(stop)
    qtbot.keyClicks(sidebar.search, "alpha")
    qtbot.waitUntil(sidebar.hits.isVisible)
    sidebar.focus_list()
    qtbot.keyClick(sidebar.hits, Qt.Key.Key_Escape)
    assert sidebar.search.text() == ""
    assert stopped == []
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Escape)
    assert stopped == [True], "there is nothing to clear: the key is the window's"


def test_what_is_new_is_found_without_asking_again(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one = add("Alpha")
    listed.refresh()
    qtbot.keyClicks(sidebar.search, "omega")
    qtbot.waitUntil(lambda: not sidebar.finder.busy)
    assert sidebar.hits.found.rows == []
    listed.rename(one.id, "Omega")
    qtbot.waitUntil(sidebar.hits.isVisible)


def test_an_empty_list_says_so(sidebar: Sidebar, listed: ConversationList) -> None:
    listed.refresh()
    said = [each.text() for each in sidebar.findChildren(QLabel) if each.isVisible()]
    assert "Your conversations appear here." in said
    sidebar.focus_list()
    assert sidebar.new_button.hasFocus()


def test_the_open_conversation_stays_marked_and_the_selection_is_left_alone(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one, two = add("One", 0.001), add("Two", 0.002)
    listed.refresh()
    sidebar.select(one)
    assert [each.title for each in sidebar.list.chosen()] == ["One"]
    click(qtbot, sidebar, two, _CTRL)
    listed.touch(two)
    sidebar.select(listed.get(one.id))
    assert len(sidebar.list.chosen()) == 2
    listed.create_folder("Everything is arranged anew")
    assert len(sidebar.list.chosen()) == 2
    following = sidebar.list.neighbour(-1)
    assert following is not None
    assert following.title == "Two"


def test_tab_walks_from_top_to_bottom(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    add("One")
    listed.refresh()
    sidebar.new_button.setFocus()
    walked = []
    for _ in range(7):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        walked.append(QApplication.focusWidget())
    assert walked[0] is sidebar.search
    assert walked[2] is sidebar.list
    heights = [each.mapTo(sidebar, QPoint()).y() // 10 for each in walked]
    assert heights == sorted(heights)


def test_what_screen_readers_find(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one = add("One")
    listed.refresh()
    folder = listed.create_folder("Work")
    assert folder is not None
    listed.move([one.id], folder.id)
    qtbot.waitUntil(sidebar.list.isVisible)
    read = QAccessible.queryAccessibleInterface(sidebar.list)
    names = [read.child(each).text(QAccessible.Text.Name) for each in range(read.childCount())]
    assert names == ["Folder Work, open, 1 conversation", "One"]


@pytest.mark.parametrize("name", ["F2", "Del", "Ctrl+D", "Ctrl+Shift+N", "Ctrl+E", "Ctrl+I"])
def test_every_action_has_words_and_keys(sidebar: Sidebar, name: str) -> None:
    found = [each for each in sidebar.list.actions() if each.shortcut().toString() == name]
    assert len(found) == 1
    assert isinstance(found[0], QAction)
    assert found[0].text()
