"""The token view: linked with the timeline both ways, walked by keyboard, quick to scroll."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import thread_time

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot
from scripted_tokens import ended, many, model_of, told
from stopwatch import least

from app.performance.chip_layout import TokenDisplay
from app.performance.model import PerformanceModel
from app.performance.sight import Sight
from app.performance.token_view import TokenView
from app.performance.tokens import Fate
from app.performance.wording import chance, span

ROUNDS = [["The", " cat", " sat"], [" on", " the"], [" red"], [" mat", "."]]
REJECTED = ["", " a", " old", ""]
QUICK_S = 0.04
"""Of this thread's own time. A frame takes 2 to 4 ms; ten thousand tokens without what is kept
would take hundreds."""

Show = Callable[[PerformanceModel], TokenView]


@pytest.fixture
def show(qtbot: QtBot) -> Iterator[Show]:
    shown: list[QScrollArea] = []

    def make(model: PerformanceModel) -> TokenView:
        sight = Sight(model)
        sight.follow()
        host, inside, view = QScrollArea(), QWidget(), TokenView(sight)
        column = QVBoxLayout(inside)
        column.addWidget(view)
        column.addStretch(1)
        host.setWidget(inside)
        host.setWidgetResizable(True)
        qtbot.addWidget(host)
        shown.append(host)
        host.resize(640, 500)
        host.show()
        qtbot.waitExposed(host)
        view.refresh()
        wanted = len(model.written.tokens.rounds)
        qtbot.waitUntil(lambda: len(view.chips.rows) == wanted)
        return view

    yield make
    shown.clear()


@pytest.fixture
def small(show: Show) -> TokenView:
    return show(model_of(told(ROUNDS, rejected=REJECTED, guesses=True)))


def chosen(view: TokenView) -> str:
    assert view.chosen is not None
    row, place = view.chosen
    return view.chips.rows[row].chips[place].token.text


def pointed(view: TokenView) -> list[int]:
    return [done.index for done in view.sight.rounds]


def click(view: TokenView, row: int, place: int) -> None:
    chip = view.chips.rows[row].chips[place]
    x = 8 + view.area.left() + chip.left + 4
    y = 6 + view.area.top() + chip.y - view._bar.value() + 8
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(round(x), round(y)))


def test_a_click_on_a_token_points_at_its_round(small: TokenView) -> None:
    click(small, 1, 1)
    assert chosen(small) == " a"
    assert pointed(small) == [1]
    click(small, 3, 0)
    assert pointed(small) == [3]


def test_pointing_at_a_round_elsewhere_shows_its_tokens(show: Show) -> None:
    view = show(model_of(told(many(900))))
    rounds = view.sight.timeline.rounds
    for done in (rounds[-1], rounds[0], rounds[len(rounds) // 2]):
        view.sight.point_round(done)
        row = view.chips.rows[done.index]
        top = view._bar.value()
        assert top <= row.top
        assert row.bottom <= top + view.area.height()
        assert view.chosen is None
    view.choose((3, 0))
    view.sight.point_round(rounds[7])
    assert view.chosen is None
    view.sight.point(None)
    assert pointed(view) == []


def test_the_keyboard_walks_tokens_and_rounds(small: TokenView) -> None:
    keys = Qt.Key
    seen = []
    for key in (keys.Key_Right, keys.Key_Right, keys.Key_Right, keys.Key_Right, keys.Key_Left):
        QTest.keyClick(small, key)
        seen.append((chosen(small), pointed(small)))
    assert seen == [("The", [0]), (" cat", [0]), (" sat", [0]), (" on", [1]), (" sat", [0])]
    QTest.keyClick(small, keys.Key_Down)
    assert (chosen(small), pointed(small)) == (" on", [1])
    QTest.keyClick(small, keys.Key_End)
    assert (chosen(small), pointed(small)) == (".", [3])
    QTest.keyClick(small, keys.Key_Right)
    assert chosen(small) == "."
    QTest.keyClick(small, keys.Key_Up)
    assert chosen(small) == " old"
    QTest.keyClick(small, keys.Key_Home)
    assert chosen(small) == "The"
    QTest.keyClick(small, keys.Key_Escape)
    assert small.chosen is None
    assert small.sight.cursor is None


def test_walking_rounds_in_the_timeline_is_gone_on_with_here(small: TokenView) -> None:
    small.sight.walk(-1)
    small.sight.walk(-1)
    assert pointed(small) == [2]
    QTest.keyClick(small, Qt.Key.Key_Right)
    assert chosen(small) == " old"


def test_wheel_pages_and_mouse(show: Show, qtbot: QtBot) -> None:
    """The wheel scrolls the tokens, and at their end the page."""
    view = show(model_of(told(many(3_000))))
    bar = view._bar
    bar.setValue(0)

    def turn(notches: int, pixels: int = 0) -> bool:
        place = QPointF(view.area.center())
        turned = QWheelEvent(
            place,
            view.mapToGlobal(place),
            QPoint(0, pixels),
            QPoint(0, 120 * notches),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(view, turned)
        return turned.isAccepted()

    assert turn(-1)
    notch = bar.value()
    assert notch > 0
    assert turn(-1, -7)
    assert bar.value() == notch + 7
    bar.setValue(0)
    assert not turn(1)
    assert bar.value() == 0
    assert view.key(Qt.Key.Key_PageDown)
    page = bar.value()
    assert page == bar.pageStep() > notch
    assert view.key(Qt.Key.Key_PageUp)
    assert bar.value() == 0
    assert not view.key(Qt.Key.Key_F5)
    chip = view.chips.rows[0].chips[0]
    qtbot.mouseMove(view, view.area.topLeft().toPoint() + QPoint(round(8 + chip.left + 4), 14))
    assert view.hovered == (0, 0)
    qtbot.mouseMove(view, QPoint(1, 1))
    assert view.hovered is None


def test_what_is_seen_is_said(small: TokenView) -> None:
    assert "in 4 rounds" in small.describe()
    small.choose((1, 1))
    assert small.describe() == small.accessibleDescription()
    for part in ("“·a”", "drafted and rejected", "round 1", "draft 60", "target under 0.1"):
        assert part in small.describe()
    rows = small.table().rows
    assert len(rows) == sum(map(len, ROUNDS)) + 2
    assert [row[1] for row in rows] == [
        *("The", "·cat", "·sat", "·on", "·a", "·the", "·old", "·red", "·mat", "."),
    ]
    assert rows[4][2] == "drafted and rejected"
    assert rows[7][3] == "–"
    assert {button.accessibleName() for button in small.buttons.values()} == {
        "Show the text with the drafted tokens underlined",
        "Show every round with what was rejected",
    }


def test_small_chances_are_not_told_as_nothing() -> None:
    assert chance(None) == "–"
    assert chance(0.0).startswith("0")
    assert "under" in chance(0.00001)
    assert chance(0.0123).startswith("1.2")
    assert chance(0.5).startswith("50")


def test_a_short_stretch_is_told_in_milliseconds() -> None:
    assert [span(each).split() for each in (0.25, 2.5)] == [["250", "ms"], ["2.5", "s"]]


def test_the_other_look_keeps_the_place(show: Show, qtbot: QtBot) -> None:
    view = show(model_of(told(many(900), guesses=True)))
    view._bar.setValue(view._bar.maximum() // 2)
    first = view.chips.first(view._bar.value() + 1)
    QTest.keyClick(view, Qt.Key.Key_M)
    assert view.mode is TokenDisplay.ACCEPTED
    assert view.buttons[TokenDisplay.ACCEPTED].isChecked()
    qtbot.waitUntil(lambda: len(view.chips.rows) == len(view.sight.timeline.rounds))
    row = view.chips.rows[first]
    top = view._bar.value()
    assert top <= row.bottom
    assert row.top <= top + view.area.height()
    fates = {chip.token.fate for row in view.chips.rows for chip in row.chips}
    assert fates == {Fate.ACCEPTED, Fate.OWN}
    view.buttons[TokenDisplay.TRACE].click()
    assert view.mode is TokenDisplay.TRACE
    qtbot.waitUntil(lambda: len(view.chips.rows) == len(view.sight.timeline.rounds))
    view._bar.setValue(view._bar.maximum() // 2)
    first = view.chips.first(view._bar.value() + 1)
    view.window().resize(320, 500)
    qtbot.waitUntil(lambda: view.width() < 330)
    qtbot.waitUntil(lambda: len(view.chips.rows) == len(view.sight.timeline.rounds))
    row, top = view.chips.rows[first], view._bar.value()
    assert top <= row.bottom
    assert row.top <= top + view.area.height()


def test_rounds_without_a_whole_letter_are_walked_over(show: Show) -> None:
    view = show(model_of(told([["The"], [], [" cat"]])))
    for key, word in ((Qt.Key.Key_Home, "The"), (Qt.Key.Key_Down, " cat"), (Qt.Key.Key_Up, "The")):
        QTest.keyClick(view, key)
        assert chosen(view) == word


def test_few_widths_are_kept(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.performance.token_view._MOST_CACHED", 2)
    assert 0 < len(show(model_of(told(ROUNDS)))._widths) <= 3


def test_the_round_that_is_pointed_at_is_marked_in_running_text(small: TokenView) -> None:
    QTest.keyClick(small, Qt.Key.Key_M)
    assert small.mode is TokenDisplay.ACCEPTED
    before = small.grab().toImage()
    small.sight.walk(-1)
    small.refresh()
    assert pointed(small) == [3]
    assert small.grab().toImage() != before


def test_the_end_stays_in_view_while_the_answer_is_written(show: Show) -> None:
    events = list(told(many(400)))
    model = model_of(iter(events[:200]))
    view = show(model)
    assert view._bar.value() == view._bar.maximum() > 0
    before = view._bar.maximum()
    for event in events[200:]:
        model.handle(event)
    view.refresh()
    while len(view.chips.rows) < len(model.written.tokens.rounds):
        view._grow()
    assert view._bar.value() == view._bar.maximum() > before
    view._bar.setValue(10)
    model.handle(ended(400))
    view.refresh()
    assert view._bar.value() == 10


def test_another_answer_takes_its_place(small: TokenView, qtbot: QtBot) -> None:
    small.choose((1, 0))
    for event in told([["New"]], request_id="s"):
        small.sight.model.handle(event)
    small.sight.follow()
    small.refresh()
    qtbot.waitUntil(lambda: len(small.chips.rows) == 1)
    assert small.chosen is None
    assert "1 token in 1 round" in small.describe()


def test_no_answer_is_one_line(show: Show) -> None:
    view = show(PerformanceModel())
    assert view.describe() == "No tokens yet."
    assert view.height() < 60
    assert len(view.table().rows) == 0
    QTest.keyClick(view, Qt.Key.Key_Right)
    QTest.keyClick(view, Qt.Key.Key_End)
    assert view.chosen is None
    assert not view.grab().isNull()


@pytest.mark.parametrize("width", [260, 1500])
@pytest.mark.parametrize("look", TokenDisplay)
def test_any_width_shows_every_token(
    show: Show, qtbot: QtBot, look: TokenDisplay, width: int
) -> None:
    view = show(model_of(told([["a" * 300, "\n"], ["مرحبا", " 世界", "🍊"]], rejected=["x" * 400])))
    view.show_mode(look)
    view.window().resize(width, 400)
    qtbot.waitUntil(lambda: abs(view.width() - width) < 60)
    while len(view.chips.rows) < 2:
        view._grow()
    for row in view.chips.rows:
        for chip in row.chips:
            assert chip.left >= 0
            assert chip.left + chip.width <= view.area.width() + 0.01
    assert not view.grab().isNull()


@pytest.mark.release(reason="a stopwatch")
@pytest.mark.parametrize("look", TokenDisplay)
def test_ten_thousand_tokens_scroll_smoothly(show: Show, look: TokenDisplay) -> None:
    view = show(model_of(told(many(10_000))))
    view.show_mode(look)
    while len(view.chips.rows) < len(view.sight.timeline.rounds):
        view._grow()
    places = iter(range(500, 10**9, 97))

    def frame() -> float:
        began = thread_time()
        view._bar.setValue(next(places))
        view.repaint()
        return thread_time() - began

    assert least(frame, QUICK_S, attempts=40) < QUICK_S


@pytest.mark.release(reason="a stopwatch")
def test_laying_out_never_holds_the_window_up(show: Show) -> None:
    view = show(model_of(told(many(10_000))))

    def slice_of_work() -> float:
        view.chips = view._empty()
        began = thread_time()
        view._grow()
        return thread_time() - began

    assert least(slice_of_work, QUICK_S, attempts=20) < QUICK_S
    assert len(view.chips.rows) > 0
