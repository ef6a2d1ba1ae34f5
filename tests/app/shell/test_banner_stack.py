"""Notices in the window: how many, where, for how long."""

from __future__ import annotations

from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import (
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

import app.shell.banner_stack
from app.models.models_page import ModelsPage
from app.notices import offer, report, tell, tell_saved, withdraw
from app.shell.banner import Banner
from app.shell.banner_stack import BannerStack
from app.shell.page_names import PageName
from engine.errors import UserFixable

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OUTSIDE = QPoint(5000, 5000)


class Room:
    """A window with a field above and below what the stack covers."""

    def __init__(self, bot: QtBot) -> None:
        self.window = QWidget()
        self.body = QWidget()
        self.field = QLineEdit(self.body)
        self.field.setGeometry(0, 0, 900, 40)
        self.field.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        layout = QVBoxLayout(self.window)
        layout.setContentsMargins(0, 50, 0, 100)
        layout.addWidget(self.body)
        self.stack = BannerStack(self.window)
        self.stack.lie_over(self.body)
        self.window.resize(900, 700)
        bot.addWidget(self.window)
        self.window.show()
        bot.waitExposed(self.window)

    def point(self, at: QPoint) -> None:
        QCursor.setPos(self.window.mapToGlobal(at))

    @property
    def place(self) -> QRect:
        return self.stack.geometry()


@pytest.fixture
def room(qtbot: QtBot) -> Room:
    QCursor.setPos(OUTSIDE)
    return Room(qtbot)


@pytest.fixture
def area(room: Room) -> BannerStack:
    return room.stack


def visible(area: BannerStack) -> list[str]:
    return [b.text for b in area.findChildren(Banner) if b.isVisible()]


def button(where: QWidget, text: str) -> QPushButton:
    return next(b for b in where.findChildren(QPushButton) if b.text() == text and b.isVisible())


def test_older_messages_wait_until_there_is_room(area: BannerStack, qtbot: QtBot) -> None:
    for number in range(5):
        report(UserFixable(f"Trouble {number}.", "Wait."))
    report(UserFixable("Trouble 4.", "Wait."))
    assert area.texts == [f"Trouble {number}." for number in (4, 3, 2, 1, 0)]
    assert sorted(visible(area)) == ["Trouble 2.", "Trouble 3.", "Trouble 4."]
    newest = next(b for b in area.findChildren(Banner) if b.text == "Trouble 4." and b.isVisible())
    qtbot.keyClick(newest, Qt.Key.Key_Escape)
    assert "Trouble 1." in visible(area)
    button(area, "Dismiss all").click()
    assert area.texts == []
    assert not area.isVisible()


def test_the_oldest_of_very_many_goes(area: BannerStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.shell.banner_stack, "_KEPT", 2)
    for number in range(4):
        report(UserFixable(f"Trouble {number}.", "Wait."))
    assert area.texts == ["Trouble 3.", "Trouble 2."]


def test_every_action_is_a_button_and_closes(area: BannerStack) -> None:
    done: list[str] = []
    report(
        UserFixable("The context is full.", "Choose."),
        ("Drop the oldest", lambda: done.append("drop")),
        None,
        ("Stop", lambda: done.append("stop")),
    )
    button(area, "Stop").click()
    assert done == ["stop"]
    assert area.texts == []


def test_details_open_and_are_copied(area: BannerStack) -> None:
    report(UserFixable("It failed.", "Try again.", "line 1\nline 2"))
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


def test_an_error_with_details_leaves_by_itself_and_a_question_waits(
    room: Room, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.shell.banner_stack, "_PROBLEM_MS", 5)
    QCursor.setPos(OUTSIDE)
    report(UserFixable("The context is full.", "Choose."), ("Stop", lambda: None))
    report(UserFixable("It failed.", "Try again.", "line 1\nline 2"))
    qtbot.waitUntil(lambda: room.stack.texts == ["The context is full."])


@pytest.mark.parametrize("width", [900, 300])
def test_long_texts_are_whole_and_leave_room_for_the_page(
    room: Room, width: int, qtbot: QtBot
) -> None:
    room.window.resize(width, 700)
    text = "A long story about memory that is not there. " * 12
    report(UserFixable(text, text), ("Do something about it", lambda: None))
    for number in range(2):
        report(UserFixable(f"{number} {text}", text))
    qtbot.waitUntil(lambda: room.stack.height() > 60)
    assert room.stack.height() <= 350
    for banner in room.stack.findChildren(Banner):
        assert banner.width() <= room.stack.viewport().width()
        qtbot.waitUntil(lambda b=banner: b.height() >= b.heightForWidth(b.width()))


def test_a_very_long_text_goes_on_in_the_details(area: BannerStack) -> None:
    report(UserFixable("x" * 5000, "Try again.", "more"))
    reader = area.findChild(QPlainTextEdit)
    assert reader is not None
    assert "x" * 5000 in reader.toPlainText()
    assert "more" in reader.toPlainText()


def test_a_toast_goes_away_but_not_from_under_the_pointer(
    room: Room, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.shell.banner_stack, "_TOAST_MS", 5)
    looked = 0
    report(UserFixable("It failed.", "Try again."))
    room.point(room.place.center())
    tell("It was deleted.", ("Undo", lambda: None))
    toast = next(b for b in room.stack.findChildren(Banner) if b.text == "It was deleted.")

    def look() -> None:
        nonlocal looked
        looked += 1

    timer = toast.findChildren(app.shell.banner_stack.QTimer)[0]
    timer.timeout.connect(look)
    qtbot.waitUntil(lambda: looked > 2)
    assert room.stack.texts == ["It was deleted.", "It failed."]
    QCursor.setPos(OUTSIDE)
    qtbot.waitUntil(lambda: room.stack.texts == ["It failed."])


def test_nothing_is_moved_to_make_room(room: Room) -> None:
    before = room.body.geometry()
    report(UserFixable("It failed.", "Try again."))
    assert room.body.geometry() == before


@pytest.mark.parametrize("far", [0, 1])
def test_what_is_under_the_pointer_is_never_covered(room: Room, far: int) -> None:
    """Neither by the first notice nor by one that makes the stack grow."""
    if far:
        report(UserFixable("It failed.", "Try again."))
    room.point(QPoint(450, 70 + far * room.stack.height()))
    tell("It was deleted.")
    assert room.stack.isVisible()
    assert not room.place.contains(room.window.mapFromGlobal(QCursor.pos()))
    assert room.body.geometry().contains(room.place)


def test_the_field_with_the_keyboard_is_not_covered(room: Room, qtbot: QtBot) -> None:
    report(UserFixable("It failed.", "Try again."))
    assert room.place.top() < 100
    room.window.activateWindow()
    room.field.setFocus()
    qtbot.waitUntil(room.field.hasFocus)
    field = QRect(room.field.mapTo(room.window, QPoint()), room.field.size())
    assert not room.place.intersects(field)


def test_buttons_are_not_covered_where_there_is_a_place_without(room: Room) -> None:
    buttons = QPushButton("Load", room.body), QPushButton("Delete", room.body)
    for index, each in enumerate(buttons):
        each.setGeometry(400 + 100 * index, 45, 90, 30)
        each.show()
    report(UserFixable("It failed.", "Try again."))
    for each in buttons:
        assert not room.place.intersects(QRect(each.mapTo(room.window, QPoint()), each.size()))
    buttons[0].move(400, room.body.height() - 40)
    place = room.place
    tell("It was deleted.")
    assert room.place.bottom() == place.bottom(), "it stays where it has appeared"


def test_the_tabs_of_a_page_are_not_covered(desk: Desk) -> None:
    window = desk.assembly.window
    window.pages.open(PageName.MODELS)
    page = window.pages.page(PageName.MODELS)
    assert isinstance(page, ModelsPage)
    page.back.setFocus()
    QCursor.setPos(OUTSIDE)
    for number in range(3):
        report(UserFixable(f"Trouble {number}.", "Wait."))
    desk.bot.waitUntil(window.banners.isVisible)
    covered = QRect(window.banners.mapTo(window, QPoint()), window.banners.size())
    for each in (*page.search.tabs.values(), page.search.field, page.add_button, page.back):
        assert not covered.intersects(QRect(each.mapTo(window, QPoint()), each.size()))


@pytest.mark.parametrize("above", [True, False])
def test_nothing_moves_under_the_pointer(room: Room, qtbot: QtBot, above: bool) -> None:
    room.point(OUTSIDE if above else QPoint(450, 70))
    for number in range(2):
        report(UserFixable(f"Trouble {number}.", "Wait."))
    assert (room.place.top() < 350) is above
    pointed = next(b for b in room.stack.findChildren(Banner) if b.text == "Trouble 0.")
    place = QRect(pointed.mapToGlobal(QPoint()), pointed.size())
    QCursor.setPos(place.center())
    for number in range(2, 5):
        report(UserFixable(f"Trouble {number}.", "Wait."))
    assert QRect(pointed.mapToGlobal(QPoint()), pointed.size()) == place
    assert "Trouble 4." not in visible(room.stack)
    QCursor.setPos(OUTSIDE)
    qtbot.waitUntil(lambda: "Trouble 4." in visible(room.stack))


def test_a_toast_is_small_and_shows_where_a_file_is(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "app.data_folder.exported_file.QDesktopServices.openUrl",
        lambda url: opened.append(url.toLocalFile()),
    )
    saved = tmp_path / "graphs.csv"
    saved.touch()
    tell_saved(saved)
    assert room.stack.texts == ["graphs.csv was saved."]
    assert room.place.width() < 450
    (banner,) = room.stack.findChildren(Banner)
    assert banner.height() < 3 * banner.fontMetrics().height() + 20, "one line"
    button(room.stack, "Show in folder").click()
    assert opened == [str(tmp_path)]


def test_an_offer_is_answered_once_or_withdrawn(area: BannerStack) -> None:
    left: list[str] = []
    take = ("Take", lambda: left.append("taken"))
    offer("Take it?", choices=[take], left=lambda: left.append("left"))
    button(area, "Take").click()
    assert left == ["taken", "left"]
    withdraw(offer("Take it?", choices=[take], left=lambda: left.append("again")))
    assert area.texts == []
    assert left == ["taken", "left"]


def test_messages_are_named_for_screen_readers(area: BannerStack) -> None:
    report(UserFixable("It failed.", "Try again."))
    banner = area.findChild(Banner)
    assert banner is not None
    assert banner.accessibleName() == "It failed. Try again."


def test_escape_leaves_a_message_before_it_stops_an_answer(desk: Desk) -> None:
    desk.script.hold_after = 0
    desk.session.send("Hello")
    report(UserFixable("Something is wrong.", "Mend it."))
    banner = desk.assembly.window.findChild(Banner)
    assert banner is not None
    inside = next(iter(banner.findChildren(QToolButton)))
    inside.setFocus()
    desk.bot.keyClick(inside, Qt.Key.Key_Escape)
    assert desk.banners.texts == []
    assert desk.session.live is not None
