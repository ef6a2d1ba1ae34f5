"""What is looked at: windows, freezing, zoom, the cursor, and the link to the text."""

from __future__ import annotations

import pytest
import scripted_rounds as scripted
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QGuiApplication, QWheelEvent
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from app.performance import PerformancePanel, wording
from app.performance.feed import Feed
from app.performance.frames import PaintedView
from app.performance.model import ModelChange
from app.performance.sight import Window
from app.theme.theme import Theme
from app.widgets.painted import SIDE, TOP
from app.widgets.table_dialog import TableDialog, TableModel
from app.widgets.terms import TERMS

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints", extend=True)


@pytest.fixture
def panel(qtbot: QtBot, theme: Theme, monkeypatch: pytest.MonkeyPatch) -> PerformancePanel:
    """A panel in a window, with an answer of 20 seconds in it."""
    del theme
    for name in ("_FRAME_MS", "_FRAME_ON_FEW_CORES_MS"):
        monkeypatch.setattr(f"app.performance.frames.{name}", 10)
    panel = PerformancePanel(Feed())
    panel.board.fold.set_open(opened=True)
    panel.resize(340, 1800)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitExposed(panel)
    panel.board.feed.asked(99.0)
    for event in scripted.answer(20):
        panel.board.feed.handle(event)
    settle(qtbot, panel)
    return panel


def settle(qtbot: QtBot, panel: PerformancePanel) -> None:
    qtbot.waitUntil(lambda: panel.board.frames.at_rest)
    QApplication.processEvents()


def wheel(view: PaintedView, x: float, turns: int, *, shift: bool = False) -> None:
    modifiers = Qt.KeyboardModifier.ShiftModifier if shift else Qt.KeyboardModifier.NoModifier
    event = QWheelEvent(
        QPointF(x, 40),
        view.mapToGlobal(QPointF(x, 40)),
        QPoint(),
        QPoint(0, 120 * turns),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, event)


def test_windows(panel: PerformancePanel) -> None:
    sight, now = panel.sight, panel.board.feed.model.now
    seen = {}
    for window, button in panel.board.controls.buttons.items():
        button.click()
        assert sight.window is window
        seen[window] = now - sight.bounds[0]
    assert seen[Window.MINUTE] == pytest.approx(60)
    assert seen[Window.FIVE] == pytest.approx(300)
    assert seen[Window.ANSWER] == pytest.approx(now - 99.0)


def test_another_answer_is_painted_once_and_not_while_it_is_chosen(
    qtbot: QtBot, panel: PerformancePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[None] = []
    monkeypatch.setattr(panel.board.tokens, "refresh", lambda: painted.append(None))
    panel.sight.show_answer(None, panel.sight.whose)
    panel.sight.show_answer(None, panel.sight.whose)
    assert not painted, "whoever asks a question does not wait for the picture"
    settle(qtbot, panel)
    assert len(painted) == 1


def test_the_graphs_of_an_answer_stop_with_it(qtbot: QtBot, panel: PerformancePanel) -> None:
    sight = panel.sight
    panel.board.controls.buttons[Window.ANSWER].click()
    panel.board.feed.handle(finished := scripted.finished(at=121.0))
    panel.board.feed.handle(scripted.sample(400.0))
    settle(qtbot, panel)
    assert sight.now == 400.0
    assert sight.bounds == (99.0, finished.at)
    panel.board.controls.buttons[Window.MINUTE].click()
    assert sight.bounds == (340.0, 400.0)


def test_frozen_pictures_stay_while_the_account_goes_on(
    qtbot: QtBot, panel: PerformancePanel
) -> None:
    sight = panel.sight
    panel.board.controls.freeze.click()
    before = (sight.now, sight.bounds, sight.stretch(100.0), sight.timeline)
    for event in scripted.answer(5, start=130, request_id="next"):
        panel.board.feed.handle(event)
    settle(qtbot, panel)
    assert panel.board.feed.model.timeline.request_id == "next"
    assert (sight.now, sight.bounds, sight.stretch(100.0), sight.timeline) == before
    panel.board.controls.freeze.click()
    assert sight.timeline.request_id == "next"
    assert sight.now == panel.board.feed.model.now


def test_the_keyboard_walks_the_rounds(qtbot: QtBot, panel: PerformancePanel) -> None:
    sight, newest = panel.sight, panel.board.feed.model.timeline.rounds[-1]
    panel.board.timeline.setFocus()
    sight.zoom(8)
    seen = []
    for _ in range(12):
        qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Left)
        (done,) = sight.rounds
        seen.append(done.index)
        view = sight.stretch(1.0)
        assert view is not None
        assert view.start < done.verify.end <= view.end
    span = sight.span
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Plus)
    assert sight.span < span
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_X)  # means nothing here
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Minus)
    assert sight.span == pytest.approx(span)
    assert seen == list(range(newest.index, newest.index - 12, -1))
    assert sight.lags > 0
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Right)
    assert sight.rounds[0].index == seen[-2]
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Home)
    assert sight.rounds[0].index == 0
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_End)
    assert not sight.rounds
    assert sight.lags == 0


def test_zooming_keeps_what_is_under_the_mouse(qtbot: QtBot, panel: PerformancePanel) -> None:
    sight = panel.sight
    span = sight.span
    wheel(panel.board.timeline, 200, 1)
    assert sight.span < span
    assert sight.lags == 0  # who follows goes on following
    qtbot.keyClick(panel.board.timeline, Qt.Key.Key_Minus)
    assert sight.span == span
    panel.board.controls.freeze.click()
    sight.zoom(4)
    wheel(panel.board.timeline, 200, 1, shift=True)
    assert sight.lags > 0
    view = sight.stretch(panel.board.timeline.room - panel.board.timeline._left)
    assert view is not None
    x = 200 - 8 - panel.board.timeline._left
    under = view.time(x)
    wheel(panel.board.timeline, 200, 1)
    after = sight.stretch(view.width)
    assert after is not None
    assert after.time(x) == pytest.approx(under)
    for _ in range(40):
        panel.board.timeline.closer.click()
    assert sight.span == pytest.approx(0.002)


def test_the_timeline_shows_the_whole_answer_until_it_is_zoomed(
    qtbot: QtBot, panel: PerformancePanel
) -> None:
    sight, timeline = panel.sight, panel.board.timeline
    rounds = sight.timeline.rounds
    assert sight.fits
    view = sight.stretch(100.0)
    assert view is not None
    assert view.start == pytest.approx(rounds[1].verify.start, abs=0.1)
    assert view.end == rounds[-1].verify.end
    assert timeline._dense, "columns, as a round is less than four pixels"
    panel.board.feed.handle(scripted.finished(121.0))
    settle(qtbot, panel)
    wheel(timeline, 60, 8)
    assert not sight.fits
    assert not timeline._dense
    assert sight.lags > 10, "what lies under the mouse stays there"
    qtbot.keyClick(timeline, Qt.Key.Key_0)
    assert sight.fits
    assert sight.lags == 0


def test_the_cursor_goes_through_all_graphs_and_to_the_text(
    qtbot: QtBot, panel: PerformancePanel
) -> None:
    told: list[tuple[str, int, int]] = []
    panel.range_hovered.connect(lambda *range_: told.append(range_))
    speed, cpu = panel.board.lanes[0], panel.board.lanes[2]
    qtbot.mouseMove(speed, QPoint(speed.width() - 60, 40))
    assert panel.sight.cursor is not None
    assert told[-1][0] == "r"
    rounds = panel.sight.rounds
    assert told[-1][1:] == (rounds[0].text_start, rounds[-1].text_end)
    before, after = speed.grab().toImage(), cpu.grab().toImage()
    qtbot.mouseMove(panel.board.timeline, QPoint(panel.board.timeline.width() - 30, 60))
    (done,) = panel.sight.rounds
    assert told[-1] == ("r", done.text_start, done.text_end)
    assert speed.grab().toImage() != before
    assert cpu.grab().toImage() != after
    qtbot.mouseMove(panel.board.timeline, QPoint(1, 40))
    assert panel.sight.cursor is None, "nothing was measured beside the graph"
    qtbot.mouseMove(panel.board.timeline, QPoint(panel.board.timeline.width() - 30, 60))
    assert told[-1] != ("", -1, -1)
    panel.hide()
    assert told[-1] == ("", -1, -1)


def test_the_text_points_at_its_round(panel: PerformancePanel) -> None:
    told: list[tuple[str, int, int]] = []
    panel.range_hovered.connect(lambda *range_: told.append(range_))
    early = panel.board.feed.model.timeline.rounds[5]
    panel.show_offset("r", early.text_start)
    assert panel.sight.rounds == (early,)
    view = panel.sight.stretch(1.0)
    assert view is not None
    assert view.start < early.verify.end < view.end
    panel.show_offset("r", -1)
    assert panel.sight.cursor is None
    assert panel.sight.lags == 0
    panel.show_offset("another", early.text_start)
    assert panel.sight.cursor is None
    assert not told  # the text needs no answer


def test_arrows_move_the_cursor_of_a_graph(qtbot: QtBot, panel: PerformancePanel) -> None:
    cpu = panel.board.lanes[2]
    cpu.setFocus()
    places = []
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Right):
        qtbot.keyClick(cpu, key)
        assert panel.sight.cursor is not None
        places.append(panel.sight.cursor)
    assert places[0] > places[1] > places[2] < places[3]
    assert places[3] == pytest.approx(places[1])
    assert not cpu.key(Qt.Key.Key_F5)
    assert panel.sight.cursor == places[3]
    qtbot.keyClick(cpu, Qt.Key.Key_Escape)
    assert panel.sight.cursor is None


def test_another_screen_is_painted_for_anew(panel: PerformancePanel) -> None:
    view = panel.board.lanes[0]
    view.grab()
    assert view._picture is not None
    QApplication.sendEvent(view, QEvent(QEvent.Type.DevicePixelRatioChange))
    assert view._picture is None


def test_gaps_are_explained(panel: PerformancePanel) -> None:
    view = panel.sight.stretch(panel.board.timeline.room - panel.board.timeline._left)
    assert view is not None
    done = next(each for each in reversed(panel.sight.timeline.rounds) if each.draft)
    assert done.draft is not None
    x = panel.board.timeline._left + view.x((done.draft.start + done.draft.end) / 2)
    timeline = panel.board.timeline
    said = timeline.words_at(QPointF(x + SIDE, timeline.header_height + 35 + TOP))
    assert f"Round {done.index}: " in said
    assert "target waits for the draft: " in said
    assert timeline.words_at(QPointF(SIDE, TOP)) == ""


def test_names_and_numbers_have_the_tooltips_of_their_terms(panel: PerformancePanel) -> None:
    timeline, numbers = panel.board.timeline, panel.board.numbers
    draft = QPointF(SIDE + 1, TOP + timeline.header_height + 5)
    assert timeline.words_at(draft) == TERMS["Draft"]
    assert numbers.words_at(QPointF(SIDE, TOP)) == TERMS["Tokens per second"]
    last = QPointF(numbers.width() - SIDE, numbers.height() - TOP)
    assert numbers.words_at(last) == TERMS["Round"]


def test_every_picture_has_a_table_and_a_menu(qtbot: QtBot, panel: PerformancePanel) -> None:
    for event in scripted.answer(2, start=130, gpu=True):
        panel.board.feed.handle(event)
    settle(qtbot, panel)
    menu = panel.board.controls.tables.menu()
    assert isinstance(menu, QMenu)
    assert [action.text() for action in menu.actions()] == [
        view.accessibleName() for view in panel.board.views
    ]
    board = panel.board
    for view in {*board.views} - {board.tokens, board.kinds}:  # nothing was written
        view.setFocus()
        qtbot.keyClick(view, Qt.Key.Key_T)
        (dialog,) = panel.findChildren(TableDialog)
        table = dialog.model.table
        assert dialog.windowTitle() == view.accessibleName()
        assert len(table.rows) > 2
        assert all(len(row) == len(table.columns) for row in table.rows)
        QAbstractItemModelTester(TableModel(table, dialog))
        dialog.view.selectRow(1)
        dialog.copy_selected()
        copied = QGuiApplication.clipboard().text().splitlines()
        assert copied == ["\t".join(table.columns), "\t".join(table.rows[1])]
        view.copy()
        assert len(QGuiApplication.clipboard().text().splitlines()) == len(table.rows) + 1
        dialog.close()
        qtbot.waitUntil(lambda: not panel.findChildren(TableDialog))


def test_what_cannot_be_measured_is_said(qtbot: QtBot, panel: PerformancePanel) -> None:
    assert "GPU" in panel.board.absent.text()
    assert panel.board.absent.isVisible()
    panel.board.feed.handle(scripted.sample(140, gpu=True))
    settle(qtbot, panel)
    assert not panel.board.absent.isVisible()
    assert all(view.isVisible() for view in panel.board.lanes)


def test_a_hidden_panel_catches_up_in_slices(qtbot: QtBot, panel: PerformancePanel) -> None:
    panel.hide()
    for index in range(20_000):
        panel.board.feed.handle(
            scripted.round_finished(index, 200.0 + 0.001 * index, request_id="hidden")
        )
    assert panel.board.feed.model.timeline.request_id == "r"
    panel.show()
    settle(qtbot, panel)
    assert panel.sight.tally is panel.board.feed.model.tally
    assert panel.board.feed.model.tally is not None
    assert panel.board.feed.model.tally.committed == 20_000
    assert panel.board.frames._stale == ModelChange.NOTHING


def test_the_focus_ring_can_be_seen(qtbot: QtBot, panel: PerformancePanel) -> None:
    panel.activateWindow()
    for view in panel.board.views:
        if view.isHidden():
            continue
        view.clearFocus()
        without = view.grab().toImage()
        view.setFocus()
        qtbot.waitUntil(view.hasFocus)
        assert view.grab().toImage() != without
        assert view.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_escape_takes_the_cursor_away_before_it_means_anything_else(
    qtbot: QtBot, panel: PerformancePanel
) -> None:
    stopped: list[bool] = []
    stop = QAction("Stop", panel)
    stop.setShortcut("Esc")
    stop.triggered.connect(lambda: stopped.append(True))
    panel.addAction(stop)
    for view in (panel.board.timeline, panel.board.lanes[2]):
        view.setFocus()
        qtbot.waitUntil(view.hasFocus)
        qtbot.keyClick(view, Qt.Key.Key_Left)
        qtbot.keyClick(view, Qt.Key.Key_Escape)
        assert panel.sight.cursor is None
        assert not stopped
    qtbot.keyClick(panel.board.lanes[2], Qt.Key.Key_Escape)
    assert stopped


def test_an_axis_begins_with_nothing_however_floats_add_up() -> None:
    begun, end = 0.4031, 8.03
    beginning = (end - (end - begun)) - begun
    assert beginning > 0
    assert wording.since_begin(beginning) == "0"
    assert wording.since_begin(0.0004) == "0.4\xa0ms"
