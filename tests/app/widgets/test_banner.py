from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

import app.widgets.banner
from app.widgets.banner import Banner, BannerArea
from engine.errors import UserFixable

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def area(qtbot: QtBot) -> BannerArea:
    page = QWidget()
    area = BannerArea(page)
    layout = QVBoxLayout(page)
    layout.addWidget(area)
    layout.addStretch(1)
    page.resize(900, 700)
    qtbot.addWidget(page)
    page.show()
    qtbot.waitExposed(page)
    area.page = page  # type: ignore[attr-defined] - kept alive
    return area


def visible(area: BannerArea) -> list[str]:
    return [b.text for b in area.findChildren(Banner) if b.isVisible()]


def button(where: QWidget, text: str) -> QPushButton:
    return next(b for b in where.findChildren(QPushButton) if b.text() == text and b.isVisible())


def test_older_messages_wait_until_there_is_room(area: BannerArea, qtbot: QtBot) -> None:
    for number in range(5):
        area.show_trouble(UserFixable(f"Trouble {number}.", "Wait."))
    area.show_trouble(UserFixable("Trouble 4.", "Wait."))
    assert area.texts == [f"Trouble {number}." for number in (4, 3, 2, 1, 0)]
    assert sorted(visible(area)) == ["Trouble 2.", "Trouble 3.", "Trouble 4."]
    newest = next(b for b in area.findChildren(Banner) if b.text == "Trouble 4." and b.isVisible())
    qtbot.keyClick(newest, Qt.Key.Key_Escape)
    assert "Trouble 1." in visible(area)
    button(area, "Dismiss all").click()
    assert area.texts == []
    assert not area.isVisible()


def test_every_action_is_a_button_and_closes(area: BannerArea) -> None:
    done: list[str] = []
    area.show_trouble(
        UserFixable("The context is full.", "Choose."),
        ("Drop the oldest", lambda: done.append("drop")),
        None,
        ("Stop", lambda: done.append("stop")),
    )
    button(area, "Stop").click()
    assert done == ["stop"]
    assert area.texts == []


def test_details_open_and_are_copied(area: BannerArea) -> None:
    area.show_trouble(UserFixable("It failed.", "Try again.", "line 1\nline 2"))
    reader = area.findChild(QPlainTextEdit)
    assert reader is not None
    assert not reader.isVisible()
    button(area, "Details").click()
    assert reader.isVisible()
    assert reader.toPlainText() == "line 1\nline 2"
    button(area, "Copy details").click()
    assert QGuiApplication.clipboard().text() == "line 1\nline 2"
    button(area, "Hide details").click()
    assert not reader.isVisible()


@pytest.mark.parametrize("width", [900, 300])
def test_long_texts_are_whole_and_leave_room_for_the_page(
    area: BannerArea, width: int, qtbot: QtBot
) -> None:
    page = area.parentWidget()
    assert page is not None
    page.resize(width, 700)
    text = "A long story about memory that is not there. " * 12
    area.show_trouble(UserFixable(text, text), ("Do something about it", lambda: None))
    for number in range(2):
        area.show_trouble(UserFixable(f"{number} {text}", text))
    qtbot.waitUntil(lambda: area.height() > 60)
    assert area.height() <= 350
    for banner in area.findChildren(Banner):
        assert banner.width() <= area.viewport().width()
        qtbot.waitUntil(lambda b=banner: b.height() >= b.heightForWidth(b.width()))


def test_a_very_long_text_goes_on_in_the_details(area: BannerArea) -> None:
    area.show_trouble(UserFixable("x" * 5000, "Try again.", "more"))
    reader = area.findChild(QPlainTextEdit)
    assert reader is not None
    assert "x" * 5000 in reader.toPlainText()
    assert "more" in reader.toPlainText()


def test_a_notice_goes_away_but_not_under_the_keyboard(
    area: BannerArea, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use = [True]
    asked: list[bool] = []

    def used(_banner: Banner) -> bool:
        asked.append(in_use[0])
        return in_use[0]

    monkeypatch.setattr(app.widgets.banner, "_NOTICE_MS", 5)
    monkeypatch.setattr(app.widgets.banner, "_in_use", used)
    area.show_notice("It was deleted.", ("Undo", lambda: None))
    qtbot.waitUntil(lambda: len(asked) > 2)
    assert area.texts == ["It was deleted."]
    in_use[0] = False
    qtbot.waitUntil(lambda: area.texts == [])


def test_messages_are_named_for_screen_readers(area: BannerArea) -> None:
    area.show_trouble(UserFixable("It failed.", "Try again."))
    banner = area.findChild(Banner)
    assert banner is not None
    assert banner.accessibleName() == "It failed. Try again."
