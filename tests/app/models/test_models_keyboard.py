"""The Models page by keyboard: Tab goes as one reads."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from scripted_hub import Visitor

from app.models.search_bar import ModelsTab

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
