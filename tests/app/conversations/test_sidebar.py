"""The left area, by keyboard and mouse, on a real history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QHelpEvent,
)
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QMenu, QToolTip
from pytestqt.qtbot import QtBot

from app.conversations.model import IDS, ConversationModel
from app.conversations.sidebar import Sidebar
from app.history import Conversation, HistoryStore, Hit
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


def test_a_row_and_its_dots_look_different_under_the_mouse(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one = add("One")
    listed.refresh()
    view = sidebar.list
    index = view.rows.index_of(one.id)
    qtbot.waitUntil(lambda: not view.verticalScrollBar().isVisible())
    row = view.visualRect(index)
    pictures = [view.viewport().grab(row).toImage()]
    for place in (row.topLeft() + QPoint(9, 9), more_area(row).center()):
        qtbot.mouseMove(view.viewport(), place)
        pictures.append(view.viewport().grab(row).toImage())
    assert pictures[0] != pictures[1]
    assert pictures[1] != pictures[2]


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


def test_the_menus_of_folders_of_the_list_and_of_what_is_in_a_folder(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    sidebar.commands.pop_up(QPoint(3, 3))
    menu = menu_of(sidebar)
    offered = {each.text(): each.isEnabled() for each in menu.actions() if not each.isSeparator()}
    exports = [enabled for text, enabled in offered.items() if text.startswith("Export all")]
    assert exports == [False, False]
    assert offered["New folder"]
    menu.close()

    one = add("One")
    listed.refresh()
    sidebar.commands.make_folder([one.id])
    sidebar.commands.make_folder()  # the name is taken
    full, empty = sorted(listed.folders(), key=lambda each: each.id)
    assert (full.name, empty.name) == ("New folder", "New folder 2")
    sidebar.list.setCurrentIndex(sidebar.list.rows.folder_index(empty.id))
    sidebar.commands.pop_up(QPoint(3, 3))
    menu = menu_of(sidebar)
    assert texts(menu) == ["Rename folder", "Delete folder"]
    pick(qtbot, menu, "Delete folder")
    assert [each.id for each in listed.folders()] == [full.id]

    click(qtbot, sidebar, one)
    sidebar.commands._pop_up_move()
    pick(qtbot, menu_of(sidebar), "No folder")
    moved = listed.get(one.id)
    assert moved is not None
    assert moved.folder_id is None

    sidebar._more.click()
    menu = menu_of(sidebar)
    assert [each.isEnabled() for each in menu.actions() if each.text().startswith("Export")] == [
        True,
        True,
    ]
    menu.close()


def test_next_and_previous_conversation(
    sidebar: Sidebar, listed: ConversationList, add: Add
) -> None:
    one, two = add("One", 0.001), add("Two", 0.002)
    listed.refresh()
    sidebar.opened.connect(sidebar.select)
    opened: list[str] = []
    sidebar.opened.connect(lambda each: opened.append(each.title))
    sidebar.select(one)
    sidebar.open_next(1)
    sidebar.open_next(1)  # there is none below
    sidebar.open_next(-1)
    assert opened == [two.title, one.title]


def tip(sidebar: Sidebar, place: QPoint) -> str:
    """The tooltip that appears at a place of the list."""
    view = sidebar.list.viewport()
    QApplication.sendEvent(view, QHelpEvent(QEvent.Type.ToolTip, place, view.mapToGlobal(place)))
    return QToolTip.text()


def test_a_title_without_room_is_told_in_full(
    sidebar: Sidebar, listed: ConversationList, add: Add
) -> None:
    long = add("A title that no sidebar has room for, however wide it may be made", 0.001)
    short = add("Short", 0.002)
    listed.refresh()
    areas = [sidebar.list.visualRect(sidebar.list.rows.index_of(each.id)) for each in (long, short)]
    heading = sidebar.list.visualRect(sidebar.list.rows.index(0, 0))
    assert tip(sidebar, heading.center()) == ""
    assert tip(sidebar, areas[1].topLeft() + QPoint(30, 8)) == ""
    assert tip(sidebar, areas[0].topLeft() + QPoint(30, 8)) == long.title
    assert tip(sidebar, more_area(areas[0]).center()) == "More (menu key)"


def test_what_is_dragged_goes_along_as_a_label(
    sidebar: Sidebar,
    listed: ConversationList,
    add: Add,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = add("One", 0.001), add("Two", 0.002)
    listed.refresh()
    taken: list[tuple[bytes, int]] = []

    def take(drag: QDrag, _action: Qt.DropAction) -> Qt.DropAction:
        taken.append((bytes(drag.mimeData().data(IDS).data()), drag.pixmap().width()))
        return Qt.DropAction.MoveAction

    monkeypatch.setattr(QDrag, "exec", take)
    sidebar.list.clearSelection()
    sidebar.list.startDrag(Qt.DropAction.MoveAction)
    assert taken == []
    click(qtbot, sidebar, one)
    sidebar.list.startDrag(Qt.DropAction.MoveAction)
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Down, _SHIFT)
    sidebar.list.startDrag(Qt.DropAction.MoveAction)
    assert [len(ids.split()) for ids, _ in taken] == [1, 2]
    assert taken[1][1] > taken[0][1]  # "2 conversations" is longer than "One"


def test_a_drag_scrolls_at_the_edges_and_leaves_no_mark(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    one, *_ = [add(f"Chat {number}", 0.001 * number) for number in range(40)]
    listed.refresh()
    folder = listed.create_folder("Work")
    assert folder is not None
    view, bar = sidebar.list, sidebar.list.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    before = view.grab().toImage()
    data = view.rows.mimeData([view.rows.index_of(one.id)])
    action, left = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
    plain = Qt.KeyboardModifier.NoModifier

    def over(place: QPoint, carried: QMimeData = data) -> bool:
        event = QDragMoveEvent(place, action, carried, left, plain)
        QApplication.sendEvent(view.viewport(), event)
        return event.isAccepted()

    onto = view.visualRect(view.rows.folder_index(folder.id)).center()
    QApplication.sendEvent(view.viewport(), QDragEnterEvent(onto, action, data, left, plain))
    assert over(onto)
    onto_folder = view.grab().toImage()
    assert onto_folder != before
    heading = view.rows.index(view.rows.folder_index(folder.id).row() + 1, 0)
    assert over(view.visualRect(heading).center())
    assert view.grab().toImage() not in (before, onto_folder)
    QApplication.sendEvent(view.viewport(), QDragLeaveEvent())
    assert view.grab().toImage() == before
    bottom = QPoint(30, view.viewport().height() - 3)
    QApplication.sendEvent(view.viewport(), QDragEnterEvent(bottom, action, data, left, plain))
    over(bottom)
    down = bar.value()
    assert down > 0
    over(QPoint(30, 3))
    assert bar.value() < down
    other = QMimeData()
    other.setText("words")
    assert not over(bottom, other)
    drop = QDropEvent(QPointF(bottom), action, other, left, plain)
    QApplication.sendEvent(view.viewport(), drop)
    assert not drop.isAccepted()


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


def test_more_places_of_one_conversation_unfold(
    sidebar: Sidebar, listed: ConversationList, add: Add, store: HistoryStore, qtbot: QtBot
) -> None:
    one = add("Birds")
    for number in range(8):
        store.answers.add_user_message(one.id, f"heron number {number}")
    listed.refresh()
    opened: list[int | None] = []
    sidebar.hit_opened.connect(lambda hit, _words: opened.append(hit.message_id))
    qtbot.keyClicks(sidebar.search, "heron")
    qtbot.waitUntil(sidebar.hits.isVisible)
    found = sidebar.hits.found
    folded = [found.index(row).data() for row in range(found.rowCount())]
    assert folded[0] == "Birds"
    assert folded[-1] == f"{8 - len(folded) + 2} more matches"
    sidebar.hits.choose(len(folded) - 1)
    assert found.rowCount() == 9
    assert sidebar.hits.currentIndex().row() == len(folded) - 1
    assert opened == []
    sidebar.hits.choose(8)
    assert len(opened) == 1


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


def test_the_keyboard_is_not_lost_with_the_last_conversation(
    sidebar: Sidebar, listed: ConversationList, add: Add, qtbot: QtBot
) -> None:
    add("One")
    listed.refresh()
    sidebar.focus_list()
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)
    assert sidebar.new_button.hasFocus(), "a sentence shows no focus"


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
