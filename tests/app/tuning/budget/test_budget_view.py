"""The budget in a real widget: keys, mouse, words, what is painted when, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from time import thread_time

import pytest
import sample_budgets as sample
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QHelpEvent, QImage, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QToolTip
from pytestqt.qtbot import QtBot
from stopwatch import least

from app.engine_link.plan_texts import unbroken
from app.settings.profiles import ModelProfile
from app.theme.theme import Theme, ThemeChoice
from app.tuning.budget.axis import Axis
from app.tuning.budget.curve_view import CurveView
from app.tuning.budget.layer_map import Grid
from app.tuning.budget.model import GIB
from app.tuning.budget.view import BudgetView
from app.tuning.budget.wording import sentence
from app.widgets.painted import SIDE, Painted
from app.widgets.table_dialog import TableDialog
from app.widgets.terms import TERMS
from engine.commands import Mode

# A note of the offscreen platform about any top-level widget with a smallest size.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

LEFT = Qt.MouseButton.LeftButton
ENOUGH_S, MOST_S = 0.004, 0.05
"""Of this thread's own time for one step of a drag: what is wanted, what no machine may need."""


class Told:
    """What a view tells."""

    def __init__(self, view: BudgetView) -> None:
        self.changed: list[int] = []
        self.settled: list[int | None] = []
        view.chosen.connect(self.changed.append)
        view.slider.settled.connect(lambda: self.settled.append(view.budget))


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> Iterator[BudgetView]:
    before = theme.choice
    theme.apply(ThemeChoice.LIGHT)
    made = BudgetView()
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show_model(sample.model())
    made.chosen.connect(lambda budget: made.show_profile(ModelProfile(vram=budget)))
    made.show()
    qtbot.waitExposed(made)
    QApplication.processEvents()
    yield made
    theme.apply(before)


def picture(view: BudgetView) -> QImage:
    image = QImage(view.size(), QImage.Format.Format_RGB32)
    image.fill(0)
    view.render(image, QPoint(0, 0))
    return image


def place(view: BudgetView, vram: float) -> QPoint:
    """Where a budget is on the slider."""
    return QPoint(round(view.slider.axis.x(vram)), view.slider.height() // 3)


def test_keys_go_by_steps_by_gib_and_to_the_ends(qtbot: QtBot, view: BudgetView) -> None:
    told, points = Told(view), view.model.points  # type: ignore[union-attr]
    last = points[view.model.last].vram  # type: ignore[union-attr]
    view.show_profile(ModelProfile(vram=points[10].vram))
    for key, vram in (
        (Qt.Key.Key_Right, points[11].vram),
        (Qt.Key.Key_Up, points[12].vram),
        (Qt.Key.Key_Left, points[11].vram),
        (Qt.Key.Key_Down, points[10].vram),
        (Qt.Key.Key_End, last),
        (Qt.Key.Key_Home, 0),
    ):
        qtbot.keyClick(view.slider, key)
        assert view.budget == vram == told.changed[-1] == told.settled[-1]
    view.show_profile(ModelProfile(vram=points[10].vram))
    qtbot.keyClick(view.slider, Qt.Key.Key_PageUp)
    layer = points[11].vram - points[10].vram
    assert abs(view.budget - points[10].vram - GIB) <= layer / 2
    qtbot.keyClick(view.slider, Qt.Key.Key_PageDown)
    assert view.budget == points[10].vram
    assert len(told.changed) == len(told.settled) == 8


def test_a_key_at_the_end_tells_nobody(qtbot: QtBot, view: BudgetView) -> None:
    view.show_profile(ModelProfile(vram=0))
    told = Told(view)
    qtbot.keyClick(view.slider, Qt.Key.Key_Left)
    assert not told.changed
    assert not told.settled


def test_a_drag_stops_at_every_step_and_before_the_forbidden_zone(view: BudgetView) -> None:
    model, told, slider = view.model, Told(view), view.slider
    assert model is not None
    begin, end = place(view, 2 * GIB), place(view, 12 * GIB)
    QTest.mousePress(slider, LEFT, pos=begin)
    for x in range(begin.x(), end.x() + 1, 3):
        QTest.mouseMove(slider, QPoint(x, begin.y()))
        move = told.changed[-1]
        assert move == model.points[model.nearest(slider.axis.vram(x))].vram
    assert not told.settled
    QTest.mouseRelease(slider, LEFT, pos=end)
    assert told.changed == sorted(set(told.changed))  # nothing is told between steps
    assert told.settled == [told.changed[-1]] == [model.points[model.last].vram]


def test_the_curve_is_as_good_as_the_slider(view: BudgetView) -> None:
    model, told, curve = view.model, Told(view), view.curve
    assert model is not None
    at = QPoint(round(curve.axis.x(model.points[7].vram) + SIDE), curve.height() // 2)
    QTest.mousePress(curve, LEFT, pos=at)
    QTest.mouseMove(curve, at + QPoint(2, 0))
    QTest.mouseRelease(curve, LEFT, pos=at)
    assert told.changed == told.settled == [model.points[7].vram]


def test_what_others_set_is_told_to_nobody(view: BudgetView) -> None:
    told = Told(view)
    view.show_profile(ModelProfile(vram=3 * GIB))
    view.show_model(sample.model(others=10 * GIB))
    view.show_profile(ModelProfile(vram=None))
    assert not told.changed
    assert not told.settled
    assert view.budget is None


def test_a_set_ceiling_stays_where_it_was_set(view: BudgetView) -> None:
    assert view.model is not None
    between = view.model.points[5].vram + 1
    view.show_profile(ModelProfile(vram=between))
    assert view.budget == between
    assert view.slider.value() == 5
    view.show_profile(ModelProfile(vram=None))
    assert view.slider.value() == view.model.index(view.model.knee)


def test_others_take_what_the_ceiling_needs(qtbot: QtBot, view: BudgetView) -> None:
    view.show_profile(ModelProfile(vram=8 * GIB))
    taken = sample.model(others=7 * GIB)
    view.show_model(taken)
    assert view.model is not None
    assert view.slider.value() > taken.last
    assert "does not fit" in view.note.text()
    qtbot.keyClick(view.slider, Qt.Key.Key_Right)
    assert view.budget == taken.points[taken.last].vram
    assert view.slider.value() == taken.last
    assert "does not fit" not in view.note.text()


def test_a_screen_reader_cannot_choose_what_does_not_fit(view: BudgetView) -> None:
    view.show_model(sample.model(others=7 * GIB))
    view.show_profile(ModelProfile(vram=0))
    view.slider.setValue(view.slider.maximum())
    assert view.model is not None
    assert view.slider.value() == view.model.last
    assert view.budget == view.model.points[view.model.last].vram


def test_the_wheel_scrolls_the_page(view: BudgetView) -> None:
    at = QPointF(view.slider.rect().center())
    wheel = QWheelEvent(
        at,
        view.slider.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    before = view.slider.value()
    QApplication.sendEvent(view.slider, wheel)
    assert view.slider.value() == before
    assert not wheel.isAccepted()


def test_everything_is_told_in_words(qtbot: QtBot, view: BudgetView) -> None:
    assert view.model is not None
    view.show_profile(ModelProfile(vram=4 * GIB))
    said = sentence(view.model, 4 * GIB)
    assert view.slider.accessibleDescription() == said
    assert view.sentence.text() == unbroken(said)
    assert view.slider.accessibleName()
    assert "today, 14:02" in view.curve.accessibleDescription()
    assert "moving to the CPU" in view.layers.accessibleDescription()
    assert "Other programs 1.3" in view.card.accessibleDescription()
    assert "Memory of this computer" in view.host.accessibleDescription()
    qtbot.keyClick(view.slider, Qt.Key.Key_Home)
    assert "Layers: 22 on the CPU" in view.layers.accessibleDescription()
    for each in view.views:
        table = each.table()
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(view.layers.table().rows) == 40 + 3


def test_tooltips_name_dots_steps_and_layers(view: BudgetView) -> None:
    assert view.model is not None
    curve, seen = view.curve, sample.MEASURED[0]
    inside = curve._spot(curve._plot, seen) + QPointF(SIDE, 6)
    assert seen.when_words in curve.words_at(inside + QPointF(3, 3))
    plot = curve._plot.center() + QPointF(SIDE, 6)
    assert "tokens/s" in curve.words_at(plot)
    assert curve.words_at(QPointF(1, 1)) == ""
    first = QPointF(SIDE + 3, view.layers.header_height + 12)
    assert view.layers.words_at(first).startswith("Layer 1: ")
    assert view.layers.words_at(QPointF(2, 2)) == ""
    view.show_profile(ModelProfile(vram=0))
    bars = view.card._areas()
    assert [name for name, _, _ in bars] == ["Now", "After"]
    now, then = (QPointF(SIDE + bar.left() + 1, 6 + bar.center().y()) for _, bar, _ in bars)
    assert view.card.words_at(now).startswith("Now: Target")
    assert view.card.words_at(now).endswith(TERMS["Target"])
    assert view.card.words_at(then).startswith("After: Free")
    assert view.card.words_at(QPointF(1, 1)) == ""
    legend = view.card._legend(view.card.room)
    cache = next(each for each in legend if "KV cache" in each.entry.words)
    lines = legend[-1].line + 1 - cache.line
    below = lines * view.card.small_metrics.height()
    spot = QPointF(SIDE + cache.left + 5, 6 + view.card.height_for(view.card.room) - below)
    assert view.card.words_at(spot) == TERMS["KV cache"]


def test_where_the_wished_mode_uses_no_memory_another_one_is_offered(view: BudgetView) -> None:
    whole = sample.model()
    rest = [each for each in whole.curves if each.mode is not Mode.CPU]
    (cpu,) = [each for each in whole.curves if each.mode is Mode.CPU]
    view.show_model(sample.model(curves=(cpu, *rest)))
    chosen: list[Mode] = []
    view.mode_chosen.connect(chosen.append)
    assert view.rival_button.isVisible()
    QTest.mouseClick(view.rival_button, LEFT)
    assert view.model is not None
    assert view.model.rival is not None
    assert chosen == [view.model.rival.mode]


def test_a_picture_has_its_tooltip_its_menu_and_its_table(
    view: BudgetView, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, words, _widget: told.append(words))
    curve = view.findChild(CurveView)
    assert curve is not None
    middle = curve.rect().center()
    where = curve.mapToGlobal(middle)
    asked = QHelpEvent(QEvent.Type.ToolTip, middle, where)
    QApplication.sendEvent(curve, asked)
    assert told == [curve.words_at(QPointF(middle))]
    assert told[0]
    menu_asked = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, middle, where)
    QApplication.sendEvent(curve, menu_asked)
    (menu,) = curve.findChildren(QMenu)
    actions = {action.text(): action for action in menu.actions()}
    actions["Copy as text"].trigger()
    assert QApplication.clipboard().text().startswith("Chosen mode\tGPU memory")
    actions["Show as table"].trigger()
    menu.close()
    (dialog,) = view.findChildren(TableDialog)
    assert dialog.isVisible()
    dialog.close()
    QTest.keyClick(curve, Qt.Key.Key_X)  # means nothing here
    assert curve.isVisible()


def test_without_a_card_there_is_only_the_memory_of_the_pc(view: BudgetView) -> None:
    view.show_model(sample.model(card=None, curves=()))
    assert "no GPU memory" in view.sentence.text()
    for part in (view.slider, view.curve, view.layers, view.card):
        assert part.isHidden()
    assert view.host.isVisible()
    view.show_model(sample.model())
    assert view.slider.isVisible()


def test_a_simulated_card_is_named_as_one(view: BudgetView) -> None:
    view.show_model(sample.model(card=sample.SIMULATED, others=0))
    for words in (
        view.sentence.text(),
        view.layers.accessibleDescription(),
        view.card.accessibleDescription(),
        view.card.accessibleName(),
    ):
        assert "simulated" in words


def test_nothing_known_yet_cannot_be_moved(view: BudgetView) -> None:
    told = Told(view)
    view.show_model(sample.model(curves=()))
    assert not view.slider.isEnabled()
    QTest.mousePress(view.curve, LEFT, pos=view.curve.rect().center())
    QTest.mouseRelease(view.curve, LEFT, pos=view.curve.rect().center())
    assert not told.changed
    assert not told.settled


@pytest.mark.parametrize("layers", [1, 40, 120])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_all_of_it_fits_into_a_narrow_window(
    theme: Theme, view: BudgetView, layers: int, scale: float
) -> None:
    try:
        theme.apply(ThemeChoice.DARK, font_scale=scale)
        view.show_model(sample.model(layers=layers))
        assert view.minimumSizeHint().width() <= 420
        view.resize(420, 1200)
        QApplication.processEvents()
        for each in view.views:
            assert each.width() <= 420
            assert each.height() == each._height(each.width())
        grid = Grid.of(layers, view.layers.room)
        assert grid.cell(layers - 1).right() <= view.layers.room
    finally:
        theme.apply(ThemeChoice.LIGHT, font_scale=1.0)


def test_pictures_follow_the_theme(theme: Theme, view: BudgetView) -> None:
    light = picture(view)
    theme.apply(ThemeChoice.DARK)
    QApplication.processEvents()
    dark = picture(view)
    for each in (view.slider, *view.views):
        spot = each.mapTo(view, QPoint(2, each.height() // 2))
        assert light.pixelColor(spot).lightness() > 200
        assert dark.pixelColor(spot).lightness() < 60


class Paints:
    """Counts how often pictures are drawn anew."""

    def __init__(self, view: BudgetView) -> None:
        self.count: Counter[Painted] = Counter()
        for each in view.views:
            each.paint = partial(self._paint, each, each.paint)  # type: ignore[method-assign]

    def _paint(self, each: Painted, draw: Callable[[QPainter], None], painter: QPainter) -> None:
        self.count[each] += 1
        draw(painter)


def test_a_drag_paints_only_what_moves(view: BudgetView) -> None:
    view.show_profile(ModelProfile(vram=0))
    QApplication.processEvents()
    paints, ground = Paints(view), view.slider._picture
    for index in range(1, 6):
        view.slider.setValue(index)
        QApplication.processEvents()
    assert paints.count == {view.layers: 5, view.card: 5, view.host: 5}
    assert view.slider._picture is ground
    assert ground is not None


def test_what_is_hidden_rests(qtbot: QtBot, view: BudgetView) -> None:
    view.hide()
    paints = Paints(view)
    view.show_model(sample.model(others=5 * GIB))
    view.show_profile(ModelProfile(vram=GIB))
    QApplication.processEvents()
    assert not paints.count
    view.show()
    qtbot.waitExposed(view)
    QApplication.processEvents()
    assert view.sentence.text() == unbroken(sentence(sample.model(others=5 * GIB), GIB))


def quickest(act: Callable[[], None]) -> float:
    """Seconds of this thread from doing something until it is painted."""

    def once() -> float:
        started = thread_time()
        act()
        QApplication.processEvents()
        return thread_time() - started

    return least(once, ENOUGH_S, attempts=20)


@pytest.mark.release(reason="a stopwatch")
def test_a_step_of_a_drag_costs_little(view: BudgetView) -> None:
    view.resize(1280, 800)
    view.show_model(sample.model(layers=120))
    view.show_profile(ModelProfile(vram=0))
    QApplication.processEvents()
    steps = iter(range(1, 100, 2))
    assert quickest(lambda: view.slider.setValue(next(steps))) < MOST_S


@pytest.mark.release(reason="a stopwatch")
def test_what_other_programs_do_costs_little(view: BudgetView) -> None:
    view.resize(1280, 800)
    taken = (sample.model(layers=120, others=n * GIB // 8) for n in range(1, 80))
    assert quickest(lambda: view.show_model(next(taken))) < 2 * MOST_S


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 120), st.floats(200, 2000))
def test_layers_are_cells_that_can_be_told_apart(count: int, room: float) -> None:
    grid = Grid.of(count, room)
    cells = [grid.cell(index) for index in range(count)]
    assert all(cell.width() >= 7 and cell.right() <= room for cell in cells)
    assert max(cell.bottom() for cell in cells) == grid.height
    assert [grid.at(cell.center()) for cell in cells] == list(range(count))
    assert grid.at(QPointF(-1, 5)) is None


@settings(deadline=None, max_examples=60)
@given(st.integers(2**24, 2**38), st.floats(100, 2000), st.floats(20, 80))
def test_ticks_are_round_and_have_room(total: int, width: float, room: float) -> None:
    axis = Axis(total, 30, width)
    ticks = axis.ticks(room)
    places = [x for x, _ in ticks]
    assert places[0] == 30
    assert places[-1] <= axis.right + 1e-6
    assert len({words for _, words in ticks}) == len(ticks), "no two are rounded to one number"
    steps = [b - a for a, b in pairwise(places)]
    assert all(step >= room * 0.999 or width < 2 * room for step in steps)
    assert axis.vram(axis.x(total / 3)) == pytest.approx(total / 3)
    assert axis.vram(-5) == 0
    assert axis.vram(10**6) == total
