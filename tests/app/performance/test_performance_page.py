"""The page in a real window: what it shows, says, saves, and what a frame of it costs."""

from __future__ import annotations

import csv
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import scripted_rounds as scripted
from desk import Desk
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QWidget
from stopwatch import least

from app.performance.export import ExportKind
from app.performance.panel import PerformancePanel
from app.performance.performance_page import PerformancePage
from app.performance.timeline import Lane
from app.shell.banner import Banner
from app.shell.page_names import PageName
from app.widgets.painted import SIDE, TOP
from engine import language
from engine.events import AcceleratorSample, Interval

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints", extend=True)


@pytest.fixture
def page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[PerformancePage]:
    """The page on show in a window of the usual size, and nothing that the engine says."""
    for name in ("_FRAME_MS", "_FRAME_ON_FEW_CORES_MS"):
        monkeypatch.setattr(f"app.performance.frames.{name}", 10)
    desk.ready()
    window = desk.assembly.window
    window.resize(1280, 800)
    window.pages.open(PageName.PERFORMANCE)
    shown = window.pages.page(PageName.PERFORMANCE)
    assert isinstance(shown, PerformancePage)
    desk.bot.waitUntil(lambda: shown.board.feed.model.sample is not None)
    shown.board.feed.clear()
    yield shown
    shown.board.feed.clear()


def settle(desk: Desk, page: PerformancePage) -> None:
    desk.bot.waitUntil(lambda: page.board.frames.at_rest)
    QApplication.processEvents()


def show(desk: Desk, page: PerformancePage, **script: object) -> None:
    """An answer of 20 seconds."""
    page.board.feed.handle_all(tuple(scripted.answer(20, **script)))  # type: ignore[arg-type]
    settle(desk, page)


def picture(widget: QWidget) -> QImage:
    image = QImage(widget.size(), QImage.Format.Format_RGB32)
    image.fill(0)
    widget.render(image, QPoint(0, 0))
    return image


def told(desk: Desk) -> str:
    window = desk.assembly.window
    return " ".join(banner.accessibleName() for banner in window.findChildren(Banner))


def test_panel_and_page_take_turns(desk: Desk, page: PerformancePage) -> None:
    """Only what is on show is painted; the other one catches up, frozen or not."""
    window = desk.assembly.window
    panel = window.performance
    assert isinstance(panel, PerformancePanel)
    show(desk, page, mode="duo")
    assert panel.board.feed is page.board.feed
    assert panel.isHidden()
    assert panel.board.frames.at_rest
    page.board.controls.freeze.click()
    window.pages.show_chat()
    if not panel.isVisible():
        window.commands.toggle_performance()
    assert panel.board.controls.freeze.isChecked()
    assert page.board.frames.at_rest
    panel.board.controls.freeze.click()
    assert not page.board.controls.freeze.isChecked()
    page.board.feed.handle_all(tuple(scripted.answer(5, start=300.0, request_id="next")))
    assert page.board.frames.at_rest, "nobody sees it"
    desk.bot.waitUntil(lambda: panel.sight.timeline.request_id == "next")


def test_everything_is_said_in_words(desk: Desk, page: PerformancePage) -> None:
    show(desk, page, gpu=True)
    for view in page.board.frames.views:
        assert view.accessibleName()
        assert view.accessibleDescription() or view.isHidden()
    words = page.board.findings.words
    assert "The target waits" in words or "No bottleneck" in words
    assert page.board.findings.comparison.text()


@pytest.mark.release(keep=1, reason="every width")
@pytest.mark.parametrize("width", [700, 1280, 1920])
def test_nothing_is_cut_off_on_the_page(desk: Desk, page: PerformancePage, width: int) -> None:
    show(desk, page, mode="duo", gpu=True)
    desk.assembly.window.resize(width, 800)
    settle(desk, page)
    inside = page.column.parentWidget()
    assert inside.width() <= page.scroller.viewport().width()
    left = {view.mapTo(inside, QPoint(0, 0)).x() for view in page.board.lanes if view.isVisible()}
    assert len(left) == (1 if width == 700 else 2)
    for part in (*page.board.frames.views, page.board.findings, page.board.controls, page.export):
        if part.isVisible():
            right = part.mapTo(page, QPoint(part.width(), 0)).x()
            assert right <= page.width()


def test_temperature_and_power_show_where_they_are_measured(
    desk: Desk, page: PerformancePage
) -> None:
    show(desk, page, gpu=True)
    warmth, power = page.board.lanes[-2:]
    assert warmth.isHidden()
    sample = scripted.sample(500.0, gpu=True)
    card = replace(sample.accelerators[0], temperature=61.0, power=140.0)
    assert isinstance(card, AcceleratorSample)
    page.board.feed.handle(replace(sample, accelerators=(card,)))
    settle(desk, page)
    assert warmth.isVisible()
    assert power.isVisible()
    assert "140" in power.describe()
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    assert len(panel.board.lanes) == 6


def test_copies_have_a_lane_and_gaps_their_names(desk: Desk, page: PerformancePage) -> None:
    timeline = page.board.timeline
    low = timeline.height()
    for index in range(10):
        start = float(index)
        done = scripted.round_finished(
            index, start, draft=0.4, verify=0.4, drafted=4, accepted=2, text=(index, index + 1)
        )
        copy = (Interval(start + 0.85, start + 0.95),)
        page.board.feed.handle(replace(done, transfers=copy))
    settle(desk, page)
    assert timeline.height() > low
    view = page.board.sight.stretch(timeline.room - timeline._left)
    assert view is not None

    def said(lane: Lane, at: float) -> str:
        rect = timeline._lane_rect(lane)
        x = timeline._left + view.x(at)
        return timeline.words_at(QPointF(x, rect.center().y()) + QPointF(SIDE, TOP))

    assert "copying: 100" in said(Lane.VERIFY, 8.9)
    assert "target waits for the draft: 400" in said(Lane.VERIFY, 8.2)
    assert "draft waits for the target: 400" in said(Lane.DRAFT, 8.6)
    assert "copying 100" in said(Lane.VERIFY, 8.6), "of the round"
    page.board.feed.clear()
    settle(desk, page)
    assert timeline.height() == low


def test_arrows_walk_the_rounds_at_once(desk: Desk, page: PerformancePage) -> None:
    show(desk, page)
    desk.assembly.window.pages.show_chat()
    desk.assembly.window.pages.open(PageName.PERFORMANCE)
    assert page.board.timeline.hasFocus() or not desk.assembly.window.isActiveWindow()
    desk.bot.keyClick(page.board.timeline, Qt.Key.Key_Left)
    newest = page.board.sight.timeline.rounds[-1]
    assert page.board.sight.rounds == (newest,)
    desk.bot.keyClick(page.board.timeline, Qt.Key.Key_Left)
    assert page.board.sight.rounds[0].index == newest.index - 1


def test_tab_goes_through_the_timeline_s_buttons_from_left_to_right(
    desk: Desk, page: PerformancePage
) -> None:
    show(desk, page)
    timeline = page.board.timeline
    timeline.setFocus()
    met: list[QWidget] = []
    for _ in range(3):
        focus = QApplication.focusWidget()
        assert focus is not None
        desk.bot.keyClick(focus, Qt.Key.Key_Tab)
        reached = QApplication.focusWidget()
        assert reached is not None
        met.append(reached)
    assert met == [timeline.whole, timeline.farther, timeline.closer]
    assert [each.x() for each in met] == sorted(each.x() for each in met)


def test_tab_goes_through_the_page_from_top_to_bottom(desk: Desk, page: PerformancePage) -> None:
    show(desk, page)
    board = page.board
    page.export.setFocus()
    met: list[QWidget | None] = []
    for _ in range(12):
        desk.bot.keyClick(QApplication.focusWidget() or page, Qt.Key.Key_Tab)
        met.append(QApplication.focusWidget())
    first = (page.back, board.gain, board.timeline, board.tokens, board.fold.button, board.numbers)
    assert [each for each in met if each in first] == list(first)


def test_an_axis_is_written_as_the_language_writes_numbers(
    page: PerformancePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language, "_signs", language._POINT_AND_COMMA)
    painter = Mock()
    page.board.lanes[0]._paint_grid(painter, QRectF(0, 0, 200, 100), 5.0)
    assert [call.args[1] for call in painter.drawText.call_args_list] == ["5", "2,5", "0"]


def test_files_are_written_beside_the_window(
    desk: Desk, page: PerformancePage, tmp_path: Path
) -> None:
    show(desk, page, mode="duo")
    rounds = len(page.board.sight.timeline.rounds)
    for kind, name in (
        (ExportKind.ROUNDS, "rounds.csv"),
        (ExportKind.GRAPHS, "graphs.csv"),
        (ExportKind.TRACE, "trace.json"),
        (ExportKind.PICTURE, "page.png"),
        (ExportKind.CARD, "card.png"),
    ):
        page.export.save(kind, tmp_path / name)
        desk.bot.waitUntil(lambda name=name: f"{name} was saved." in told(desk))
    with (tmp_path / "rounds.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == rounds
    assert (tmp_path / "graphs.csv").read_text().count("Tokens per second") > 20
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    image = QImage(str(tmp_path / "page.png"))
    board = page.board
    assert image.width() >= board.width()
    assert image.height() >= board.height() > page.scroller.viewport().height()
    card = QImage(str(tmp_path / "card.png"))
    assert (card.width(), card.height()) == (1200, 630)
    page.export.copy_card()
    assert QGuiApplication.clipboard().image().size() == card.size()


def test_a_file_that_cannot_be_written_is_told(
    desk: Desk, page: PerformancePage, tmp_path: Path
) -> None:
    show(desk, page)
    (tmp_path / "here").mkdir()
    page.export.save(ExportKind.ROUNDS, tmp_path / "here")
    desk.bot.waitUntil(lambda: "here could not be written." in told(desk))


def test_without_rounds_there_is_nothing_to_save_of_them(desk: Desk, page: PerformancePage) -> None:
    page.export.menu().aboutToShow.emit()
    assert not page.export.actions_of[ExportKind.ROUNDS].isEnabled()
    show(desk, page)
    page.export.menu().aboutToShow.emit()
    assert page.export.actions_of[ExportKind.ROUNDS].isEnabled()


@pytest.mark.release(reason="a stopwatch")
def test_cost_of_a_frame_of_the_page(
    desk: Desk, page: PerformancePage, record_property: pytest.RecordProperty
) -> None:
    """Everything shown and drawn anew: aim 16 ms of this thread's own time, whoever else runs."""
    desk.assembly.window.resize(1920, 1080)
    show(desk, page, mode="duo", gpu=True)

    def frame() -> float:
        start = time.thread_time()
        page.board.frames.paint_all()
        for view in page.board.frames.views:
            if view.isVisible():
                picture(view)
        return 1000 * (time.thread_time() - start)

    gc.collect()
    took = least(frame, 16.0)
    record_property("frame_ms", took)
    assert took < 60
