"""Enter presses a button as Space does, whatever the desktop thinks of it."""

from __future__ import annotations

import pytest
from desk import Desk
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QPushButton

from app.shell.page_names import PageName

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_presses_a_button_of_the_window(desk: Desk, key: Qt.Key) -> None:
    window = desk.assembly.window
    button = window.navigation.buttons[PageName.TUNING]
    button.setFocus()
    desk.bot.keyClick(button, key)
    desk.bot.waitUntil(lambda: window.pages.shown is PageName.TUNING)
    panel = desk.chat.performance_button
    window.pages.show_chat()
    shown = window.performance.isVisible()
    panel.setFocus()
    desk.bot.keyClick(panel, key)
    desk.bot.waitUntil(lambda: window.performance.isVisible() is not shown)


def test_enter_opens_the_menu_of_a_button(desk: Desk) -> None:
    desk.ready()
    button = desk.assembly.window.model_button
    button.setFocus()
    desk.bot.keyClick(button, Qt.Key.Key_Return)
    desk.bot.waitUntil(lambda: QApplication.activePopupWidget() is not None)
    popup = QApplication.activePopupWidget()
    assert popup is not None
    popup.close()


def test_enter_presses_a_button_of_the_settings(desk: Desk) -> None:
    desk.assembly.window.settings_asked.emit()
    (dialog,) = desk.assembly.window.findChildren(QDialog)
    button = QPushButton("Try", dialog, autoDefault=False)
    button.show()
    dialog.activateWindow()
    desk.bot.waitUntil(dialog.isActiveWindow)
    button.setFocus()
    with desk.bot.waitSignal(button.clicked):
        desk.bot.keyClick(button, Qt.Key.Key_Return)
    assert dialog.isVisible()
    dialog.close()


def test_enter_presses_a_button_of_a_panel(desk: Desk) -> None:
    desk.ready()
    desk.chat.open_setup()
    panel = QApplication.activePopupWidget()
    assert panel is not None
    button = QPushButton("Try", panel, autoDefault=False)
    button.show()
    button.setFocus()
    with desk.bot.waitSignal(button.clicked):
        desk.bot.keyClick(button, Qt.Key.Key_Return)
    panel.close()
