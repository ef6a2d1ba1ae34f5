"""Lists that drop down show all their entries, whatever the text size."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QStyle,
    QStyleOptionComboBox,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme, ThemeChoice

pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support"),
    pytest.mark.usefixtures("styled"),
]


@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize("entries", [2, 3, 7])
def test_the_last_entry_is_whole(theme: Theme, qtbot: QtBot, scale: float, entries: int) -> None:
    theme.apply(ThemeChoice.LIGHT, font_scale=scale)
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    box = QComboBox(window)
    column.addWidget(box)
    column.addSpacing(300)
    box.addItems([f"Entry {number}" for number in range(entries)])
    window.move(0, 0)  # where there is no room above the box
    window.show()
    qtbot.waitExposed(window)
    box.showPopup()
    QApplication.processEvents()
    view = box.view()
    last = view.visualRect(view.model().index(entries - 1, 0))
    assert last.bottom() < view.viewport().height()
    assert view.verticalScrollBar().maximum() == 0
    option = QStyleOptionComboBox()
    option.initFrom(box)
    popup = box.style().styleHint(QStyle.StyleHint.SH_ComboBox_Popup, option, box)
    assert not popup, "a popup over the box hides entries behind scroll buttons near an edge"
    box.hidePopup()
