"""Prompts in the composer: "/" lists them, the keyboard chooses, places are filled in with Tab."""

from __future__ import annotations

import pytest
from desk import Desk
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.composer.message_field import MessageField
from app.chat.composer.prompt_menu import PromptMenu, matching
from app.settings import SavedPrompt
from app.settings.prompts import BUILT_IN_PROMPTS
from app.settings_page.prompts_dialog import PromptsDialog

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

Key = Qt.Key


@pytest.fixture
def field(desk: Desk) -> MessageField:
    desk.assembly.window.activateWindow()
    field = desk.chat.composer.field
    field.setFocus()
    desk.bot.waitUntil(field.hasFocus)
    return field


@pytest.fixture
def menu(desk: Desk) -> PromptMenu:
    return desk.chat.prompt_menu


def names(menu: PromptMenu) -> list[str]:
    items = [menu.list.topLevelItem(row) for row in range(menu.list.topLevelItemCount())]
    return [item.text(0) for item in items if item is not None]


def test_a_slash_lists_the_prompts_and_the_keyboard_takes_one(
    desk: Desk, field: MessageField, menu: PromptMenu
) -> None:
    QTest.keyClicks(field, "/")
    assert menu.isVisible()
    assert names(menu) == [*(prompt.name for prompt in BUILT_IN_PROMPTS), "Edit prompts…"]
    QTest.keyClicks(field, "tra")
    assert names(menu) == ["Translate", "Edit prompts…"]
    QTest.keyClick(field, Key.Key_Return)
    assert not menu.isVisible()
    assert not desk.session.messages
    assert field.textCursor().selectedText() == "{{language}}"
    QTest.keyClicks(field, "French")
    QTest.keyClick(field, Key.Key_Tab)
    QTest.keyClicks(field, "Good day")
    assert field.toPlainText() == "Translate into French:\n\nGood day"
    QTest.keyClick(field, Key.Key_Tab)
    assert not field.hasFocus()


def test_arrows_move_and_escape_leaves_what_was_typed(
    desk: Desk, field: MessageField, menu: PromptMenu
) -> None:
    QTest.keyClicks(field, "/")
    QTest.keyClick(field, Key.Key_Down)
    QTest.keyClick(field, Key.Key_Tab)
    assert field.toPlainText() == BUILT_IN_PROMPTS[1].text
    field.set_text("")
    QTest.keyClicks(field, "/ex")
    QTest.keyClick(field, Key.Key_Escape)
    QTest.keyClicks(field, "p")
    assert not menu.isVisible()
    QTest.keyClick(field, Key.Key_Return)
    desk.answered()
    assert desk.session.messages[0].text == "/exp"


def test_a_path_is_no_prompt_and_the_last_line_leads_to_the_library(
    desk: Desk, field: MessageField, menu: PromptMenu
) -> None:
    QTest.keyClicks(field, "/etc/hosts")
    assert not menu.isVisible()
    field.set_text("")
    desk.assembly.settings.change(prompts=())
    QTest.keyClicks(field, "/")
    QTest.keyClick(field, Key.Key_Return)
    assert [each for each in desk.assembly.window.findChildren(PromptsDialog) if each.isVisible()]
    assert field.toPlainText() == ""


def test_a_prompt_without_places_is_gone_on_with_and_the_list_stays_at_the_composer(
    desk: Desk, field: MessageField, menu: PromptMenu
) -> None:
    desk.assembly.settings.change(prompts=(SavedPrompt("Short", "Be brief. "),))
    QTest.keyClicks(field, "/")
    above = desk.chat.composer.y() - menu.y()
    desk.assembly.window.resize(desk.assembly.window.width(), 560)
    QTest.qWait(0)
    assert desk.chat.composer.y() - menu.y() == above
    QTest.keyClick(field, Key.Key_Return)
    QTest.keyClicks(field, "Why?")
    assert field.toPlainText() == "Be brief. Why?"


_WORDS = st.text("ab {}/", max_size=6)


@given(prompts=st.lists(st.builds(SavedPrompt, _WORDS, _WORDS), max_size=6), query=_WORDS)
def test_what_is_found_has_every_word(prompts: list[SavedPrompt], query: str) -> None:
    found = matching(prompts, query)
    wanted = query.casefold().split()
    assert all(word in f"{each.name}\n{each.text}" for each in found for word in wanted)
    if not wanted:
        assert found == prompts
