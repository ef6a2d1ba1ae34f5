"""The ways to the pages and back."""

from __future__ import annotations

import pytest
from desk import Desk
from PySide6.QtCore import QPoint, QRect, Qt

from app.notices import tell
from app.shell.page_names import PageName

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.mark.release(keep=2, reason="every page")
@pytest.mark.parametrize("name", PageName)
def test_a_row_in_the_sidebar_opens_its_page_and_leads_back(desk: Desk, name: PageName) -> None:
    window = desk.assembly.window
    button = window.navigation.buttons[name]
    desk.bot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.pages.shown is name
    assert window.pages.currentWidget() is window.pages.page(name)
    assert button.isChecked()
    desk.bot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.pages.shown is None
    assert desk.chat.isVisible()
    assert not button.isChecked()


def test_escape_leads_back_to_the_message_field(desk: Desk) -> None:
    window = desk.assembly.window
    window.pages.open(PageName.TUNING)
    desk.bot.keyClick(window, Qt.Key.Key_Escape)
    assert window.pages.shown is None


def test_the_performance_page_needs_no_panel_beside_it(desk: Desk) -> None:
    window = desk.assembly.window
    window.resize(1280, 800)
    if not window.performance.isVisible():
        window.commands.toggle_performance()
    window.pages.open(PageName.PERFORMANCE)
    assert not window.performance.isVisible()
    window.resize(700, 800)
    window.resize(1280, 800)
    assert not window.performance.isVisible()
    window.pages.open(PageName.TUNING)
    assert window.performance.isVisible()


def test_opening_a_conversation_shows_it(desk: Desk) -> None:
    window = desk.assembly.window
    desk.type_and_send("Hello")
    desk.answered()
    window.pages.open(PageName.BENCHMARK)
    window.commands.new_chat()
    assert window.pages.shown is None


def test_what_the_window_has_to_say_is_seen_on_every_page(desk: Desk) -> None:
    window, banners = desk.assembly.window, desk.banners
    window.pages.open(PageName.TUNING)
    tell("Something was done.")
    for show in (lambda: window.pages.open(PageName.BENCHMARK), window.pages.show_chat):
        show()
        assert banners.isVisible()
        body = window.pages.body
        assert body.isVisible()
        place = QRect(body.mapFromGlobal(banners.mapToGlobal(QPoint())), banners.size())
        assert body.rect().contains(place), "neither the title nor the composer is covered"
