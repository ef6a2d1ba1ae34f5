"""Keys mean one thing in the whole window."""

from __future__ import annotations

from collections import defaultdict

import pytest
from desk import Desk
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import QLabel, QPushButton

from app.shell.about import AboutDialog, NoticesDialog, ShortcutsDialog
from app.shell.page_names import PageName
from app.shell.palette import CommandPalette
from app.theme.theme import ThemeChoice

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_LOCAL = {QKeySequence(key).toString() for key in ("Ctrl+C", "Del", "F2", "Return")}
"""What every list and every text does with its own content."""


def act(desk: Desk, words: str) -> None:
    actions = desk.assembly.window.actions()
    next(action for action in actions if action.text() == words).trigger()


def test_commands_shortcuts_and_about_are_dialogs(desk: Desk) -> None:
    for words, kind in (
        ("All commands", CommandPalette),
        ("Keyboard shortcuts", ShortcutsDialog),
        ("About Duotail", AboutDialog),
    ):
        act(desk, words)
        dialog = desk.assembly.window.findChild(kind)
        assert dialog is not None
        assert dialog.isVisible()
        if isinstance(dialog, AboutDialog):
            next(b for b in dialog.findChildren(QPushButton) if "otices" in b.text()).click()
            notices = dialog.findChild(NoticesDialog)
            assert notices is not None
            assert notices.isVisible()
        if isinstance(dialog, ShortcutsDialog):
            said = {label.text() for label in dialog.findChildren(QLabel)}
            assert {"Keyboard shortcuts", "All commands"} <= said
            assert "About Duotail" not in said, "it has no keys"
        dialog.close()


def test_the_theme_and_the_sidebar_go_round(desk: Desk) -> None:
    settings, sidebar = desk.assembly.settings, desk.assembly.window.sidebar
    themes = [settings.value.theme]
    for _ in ThemeChoice:
        act(desk, "Light, dark or same as system")
        themes.append(settings.value.theme)
    assert themes[0] == themes[-1]
    assert set(themes) == set(ThemeChoice)
    for shown in (False, True):
        act(desk, "Show or hide the conversations")
        assert (sidebar.isVisible(), settings.value.sidebar_visible) == (shown, shown)


def test_escape_leaves_the_search_of_conversations_then_a_page(desk: Desk) -> None:
    window = desk.assembly.window
    window.sidebar.search.setText("words")
    act(desk, "Stop the answer or loading")
    assert window.sidebar.search.text() == ""
    window.pages.open(PageName.MODELS)
    act(desk, "Stop the answer or loading")
    assert window.pages.shown is None
    window.sidebar.search.setFocus()
    act(desk, "Stop the answer or loading")
    assert desk.chat.composer.field.hasFocus()


def test_a_message_is_sent_and_its_answer_copied(desk: Desk) -> None:
    act(desk, "Copy the last answer")  # there is none
    desk.script.answer = "A *short* answer."
    desk.chat.composer.set_text("Hello")
    assert desk.chat.composer.field.hasFocus()
    act(desk, "Continue the last answer")
    desk.answered()
    act(desk, "Copy the last answer")
    assert QGuiApplication.clipboard().text() == "A *short* answer."


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
