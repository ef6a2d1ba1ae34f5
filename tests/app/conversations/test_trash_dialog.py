"""The trash in the window: what was deleted comes back, or is gone."""

from __future__ import annotations

import pytest
from desk import Desk
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from app.history import HistoryStore
from app.history.trash import Trash
from app.notices import Notice
from engine.errors import UserFixable

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def test_a_deleted_conversation_comes_back_after_a_restart(desk: Desk) -> None:
    store = desk.assembly.store
    chat = store.conversations.create("Soup")
    question = store.answers.add_user_message(chat.id, "How many leeks?")
    other = store.conversations.create("Bread")
    desk.session.conversations.refresh()
    desk.session.conversations.delete([other.id])
    store.trash.delete_message(question.id)
    trash = desk.assembly.window.sidebar.show_trash()
    rows = [trash.list.item(row).text() for row in range(trash.list.count())]
    assert [row.split("\n")[0] for row in rows] == ["How many leeks?", "Bread"]
    trash.list.setCurrentRow(1)
    trash.restore_button.click()
    assert desk.session.conversations.get(other.id) is not None
    trash.restore_button.click()
    assert [each.text for each in store.branches.messages(chat.id)] == ["How many leeks?"]
    assert not trash.restore_button.isEnabled()
    assert "empty" in trash.about.text()


def test_an_emptied_trash_is_erased_when_the_window_closes(desk: Desk) -> None:
    store = desk.assembly.store
    chat = store.conversations.create("Soup")
    store.answers.add_user_message(chat.id, "unwanted secret")
    desk.session.conversations.refresh()
    desk.session.conversations.delete([chat.id])
    trash = desk.assembly.window.sidebar.show_trash()
    trash.empty_button.click()
    (box,) = trash.findChildren(QMessageBox)
    next(each for each in box.buttons() if each.text() == "Empty").click()
    assert trash.list.count() == 0
    desk.assembly.close()
    assert b"unwanted secret" not in store.path.read_bytes()
    with HistoryStore.open(store.path) as again:
        assert again.conversations.all() == []


def test_an_empty_trash_has_the_keyboard_on_its_close_button(desk: Desk) -> None:
    """Also once its last entry is restored, or deleted for good: an empty list shows no focus."""
    store, deleted = desk.assembly.store, desk.session.conversations
    empty = desk.assembly.window.sidebar.show_trash()
    desk.bot.waitUntil(empty.close_button.hasFocus)
    empty.reject()
    chats = [store.conversations.create(title) for title in ("Soup", "Bread")]
    deleted.refresh()
    deleted.delete([chat.id for chat in chats])
    trash = desk.assembly.window.sidebar.show_trash()
    desk.bot.waitUntil(trash.list.hasFocus)
    trash.restore_button.setFocus()
    desk.bot.keyClick(trash.restore_button, Qt.Key.Key_Space)
    assert trash.restore_button.hasFocus(), "there is one more"
    desk.bot.keyClick(trash.restore_button, Qt.Key.Key_Space)
    assert trash.close_button.hasFocus()
    trash.reject()
    deleted.delete([chats[0].id])
    again = desk.assembly.window.sidebar.show_trash()
    desk.bot.waitUntil(again.list.hasFocus)
    again.empty_button.setFocus()
    desk.bot.keyClick(again.empty_button, Qt.Key.Key_Space)
    (box,) = again.findChildren(QMessageBox)
    next(each for each in box.buttons() if each.text() == "Empty").click()
    desk.bot.waitUntil(again.close_button.hasFocus)


def test_enter_restores_and_leaves_the_trash_open(desk: Desk) -> None:
    """On the list as on the button: it is not for the one that closes."""
    store, conversations = desk.assembly.store, desk.session.conversations
    chats = [store.conversations.create(title) for title in ("Soup", "Bread", "Salt")]
    conversations.refresh()
    conversations.delete([chat.id for chat in chats])
    trash = desk.assembly.window.sidebar.show_trash()
    desk.bot.waitUntil(trash.list.hasFocus)
    desk.bot.keyClick(trash.list, Qt.Key.Key_Return)
    assert len(store.conversations.all()) == 1
    trash.restore_button.setFocus()
    desk.bot.keyClick(trash.restore_button, Qt.Key.Key_Return)
    assert len(store.conversations.all()) == 2
    assert trash.isVisible()
    trash.close_button.setFocus()
    desk.bot.keyClick(trash.close_button, Qt.Key.Key_Return)
    assert not trash.isVisible()


def test_what_is_long_is_cut_and_trouble_is_told(
    desk: Desk, notices: list[Notice], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = desk.assembly.store
    chat = store.conversations.create("Soup " * 40)
    for text in ("How many leeks?", "And how much salt?"):
        store.answers.add_user_message(chat.id, text)
    desk.session.conversations.refresh()
    desk.session.conversations.delete([chat.id])
    trash = desk.assembly.window.sidebar.show_trash()
    title, about = trash.list.item(0).text().split("\n")
    assert title.endswith("\u2026")
    assert len(title) == 80
    assert "2 messages" in about

    def broken(*_: object) -> None:
        raise UserFixable("The history cannot be read.", "Look at the drive.")

    monkeypatch.setattr(Trash, "items", broken)
    monkeypatch.setattr(Trash, "empty", broken)
    trash._empty()
    assert [each.text for each in notices[1:]] == ["The history cannot be read."] * 2
    assert trash.list.count() == 0
