"""Five hundred results: shown at once, and scrolled through at the screen's rate."""

from __future__ import annotations

from time import perf_counter

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QImage
from pytestqt.qtbot import QtBot
from stopwatch import least

from app.models.badge import RowBadge, Tone, badge_size
from app.models.model_texts import found_row
from app.models.row_delegate import RowDelegate
from app.models.row_model import ModelRow
from app.models.rows_view import RowsView
from app.showcase.hub_story import many
from app.theme.theme import Theme

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

COUNT = 500
SHOWN_S, FRAME_S = 0.1, 0.016


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> RowsView:  # noqa: ARG001 - its look
    made = RowsView("Models", found_row, lambda each: each.repo)
    qtbot.addWidget(made)
    made.resize(420, 700)
    made.show()
    qtbot.waitExposed(made)
    return made


def picture(view: RowsView) -> None:
    """Draw what is in sight."""
    image = QImage(view.size(), QImage.Format.Format_ARGB32_Premultiplied)
    view.render(image)


@pytest.mark.release(reason="a stopwatch")
def test_results_are_on_show_at_once(view: RowsView) -> None:
    found = many(COUNT)

    def shown() -> float:
        started = perf_counter()
        view.show_entries(found)
        picture(view)
        return perf_counter() - started

    assert least(shown, SHOWN_S) < SHOWN_S
    assert view.rows.rowCount() == COUNT


@pytest.mark.release(reason="a stopwatch")
def test_a_frame_of_scrolling_is_drawn_in_time(view: RowsView) -> None:
    view.show_entries(many(COUNT))
    view.doItemsLayout()
    bar = view.verticalScrollBar()
    assert bar.maximum() > 15_000
    places = iter(range(0, bar.maximum(), 137))

    def frame() -> float:
        started = perf_counter()
        bar.setValue(next(places))
        picture(view)
        return perf_counter() - started

    assert least(frame, FRAME_S, attempts=40) < FRAME_S


def test_the_chosen_entry_stays_chosen_when_others_come(view: RowsView) -> None:
    view.show_entries(many(20))
    view.choose("owner-7/Model-7-GGUF")
    chosen = view.current
    heard: list[object] = []
    view.chosen.connect(heard.append)
    view.show_entries(tuple(reversed(many(40))))
    assert view.current == chosen
    view.show_entries(many(3))
    assert view.current is None
    assert heard[-1] is None
    assert view.rows.flags(view.rows.index(0, 0)) & Qt.ItemFlag.ItemIsEnabled


@pytest.mark.parametrize("width", [180, 240, 420])
def test_a_badge_is_whole_in_a_narrow_list_and_covers_nothing(
    theme: Theme,  # noqa: ARG001 - its look
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    mark = RowBadge("Terms to accept", Tone.FAIR)
    view = RowsView[str]("Models", lambda name: ModelRow(name, "meta-llama", mark), str)
    qtbot.addWidget(view)
    view.resize(width, 200)
    view.show_entries(["Llama-3.1-8B-Instruct"])
    drawn: list[tuple[str, QRectF]] = []

    def note(_painter: object, area: QRectF, text: object, *_more: object) -> None:
        drawn.append((str(getattr(text, "text", text)), QRectF(area)))

    monkeypatch.setattr("app.models.row_delegate.draw_badge", note)
    monkeypatch.setattr("app.models.row_delegate.draw_line", note)
    view.show()
    qtbot.waitExposed(view)
    picture(view)
    places = dict(drawn)
    delegate = view.itemDelegate()
    assert isinstance(delegate, RowDelegate)
    badge = places.pop(mark.text)
    assert badge.width() == min(badge_size(mark, delegate._small).width(), width)
    assert not any(badge.intersects(each) for each in places.values())
    if width > 200:
        title = QFontMetricsF(view.font()).horizontalAdvance("Llama-3.1-8B-Instruct")
        assert places["Llama-3.1-8B-Instruct"].width() >= title
