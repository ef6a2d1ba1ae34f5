"""The Models page by keyboard: Tab goes as one reads."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from scripted_hub import Visitor

from app.models.detail.drafts import DraftChoices
from app.models.search_bar import ModelsTab
from app.showcase import hub_story as story

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def tab(visitor: Visitor) -> QWidget:
    focus = QApplication.focusWidget()
    assert focus is not None
    visitor.desk.bot.keyClick(focus, Qt.Key.Key_Tab)
    reached = QApplication.focusWidget()
    assert reached is not None
    return reached


def test_tab_goes_through_the_tab_on_show_its_list_and_its_detail(visitor: Visitor) -> None:
    search, shown = visitor.page.search, visitor.page.recommended
    visitor.until(lambda: shown.view.current is not None)
    search.tabs[ModelsTab.RECOMMENDED].setFocus()
    assert tab(visitor) is search.field
    assert tab(visitor) is shown.view
    assert shown.detail.isAncestorOf(tab(visitor))


def test_shift_tab_from_the_field_goes_to_the_checked_tab(visitor: Visitor) -> None:
    search = visitor.page.search
    for checked in (ModelsTab.RECOMMENDED, ModelsTab.SEARCH, ModelsTab.INSTALLED):
        visitor.page.show_tab(checked)
        search.field.setFocus()
        visitor.desk.bot.keyClick(search.field, Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
        assert search.tabs[checked].hasFocus()
    visitor.desk.bot.keyClick(search.tabs[ModelsTab.INSTALLED], Qt.Key.Key_Right)
    assert search.tab is ModelsTab.RECOMMENDED
    assert search.tabs[ModelsTab.RECOMMENDED].hasFocus()


def test_the_drafts_of_a_model_come_before_the_buttons_below_them(keeper: Visitor) -> None:
    """Also once they were listed anew, and whichever of them is chosen."""
    tab_of_lists, drafts = keeper.page.installed, keeper.page.installed.kept.drafts
    tab_of_lists.view.choose(story.KEPT[1].path)
    keeper.until(lambda: len(drafts.buttons) == 2)
    for none in (False, True):
        drafts.show_candidates(story.KEPT_CANDIDATES, none=none)
        tab_of_lists.view.setFocus()
        assert tab(keeper) is checked(drafts)
        assert tab(keeper) is tab_of_lists.kept.use_button


def test_the_drafts_of_a_model_on_the_hub_come_before_its_downloads(visitor: Visitor) -> None:
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    remote = visitor.page.searching.remote
    visitor.until(lambda: bool(remote.drafts.buttons) and remote.download_button.isEnabled())
    remote.variants.setFocus()
    assert tab(visitor) is checked(remote.drafts)
    assert tab(visitor) is remote.download_button


def checked(drafts: DraftChoices) -> QWidget:
    return next(button for button, _ in drafts.buttons if button.isChecked())


def test_tab_goes_through_the_buttons_beside_the_title_first(visitor: Visitor) -> None:
    page = visitor.page
    sidebar = page.header.itemAt(0).widget()
    assert sidebar is not None
    sidebar.setFocus()
    rest = [page.add_button, page.token_button, page.back]
    assert [tab(visitor) for _ in rest] == rest
    assert page.search.isAncestorOf(tab(visitor))
