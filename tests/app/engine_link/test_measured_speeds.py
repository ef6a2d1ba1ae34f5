"""Speeds that answers had: what counts, what is kept, what a file may look like."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest
from desk import Desk
from fake_engine import Script
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.engine_link.bridge import EngineBridge
from app.engine_link.measured import (
    FEWEST_TOKENS,
    MOST,
    MOST_ALIKE,
    Measured,
    MeasuredSpeeds,
    bounded,
)
from app.engine_link.measured_file import MeasuredFile
from app.settings_page.privacy import PrivacyPage
from app.settings_page.stored import StoredData
from app.showcase.script import MODEL_NAME, PLAN, stats
from engine.commands import Load, Mode
from engine.events import (
    AnswerStats,
    Compared,
    Event,
    Finished,
    FinishReason,
    ModeRun,
    PlanReady,
    PlanSummary,
    Unloaded,
)
from engine.machine.memory import DeviceMemory

MODEL = Path("models/seven")
CARD = replace(
    PLAN,
    mode=Mode.DOVETAIL,
    layers=6,
    layers_on_gpu=4,
    memory=(DeviceMemory("cpu", 100, target=7), DeviceMemory("simulated:0", 90, target=30, kv=5)),
)
POINT = Measured(str(MODEL), 1.5, Mode.DOVETAIL, "a draft", 4, 35, 12.5, 96, 2.5, True, False)
POINTS = st.builds(
    Measured,
    model=st.text(st.characters(codec="utf-8"), max_size=5),
    at=st.floats(0, 4e9),
    mode=st.sampled_from(Mode),
    draft=st.none() | st.text(max_size=3),
    layers_on_gpu=st.integers(0, 3),
    vram=st.integers(0, 2),
    tokens_per_s=st.floats(0.01, 1e4),
    committed=st.integers(0, 9999),
    acceptance_length=st.none() | st.floats(1, 9),
    drafting=st.booleans(),
    simulated=st.booleans(),
)


@pytest.fixture
def bridge(qtbot: QtBot) -> EngineBridge:  # noqa: ARG001 - an application
    return EngineBridge(lambda _emit: pytest.fail("no engine is needed"))


@pytest.fixture
def speeds(bridge: EngineBridge) -> MeasuredSpeeds:
    return MeasuredSpeeds(bridge, now=lambda: 77.0)


def tell(bridge: EngineBridge, *events: Event) -> None:
    bridge._events.extend(events)
    while bridge.drain():
        pass


def ready(plan: PlanSummary) -> PlanReady:
    return PlanReady(perf_counter(), MODEL, MODEL_NAME, plan, Load(MODEL))


def finished(done: AnswerStats, reason: FinishReason = FinishReason.STOP) -> Finished:
    return Finished(perf_counter(), "q", reason, "", (), done)


def test_an_answer_becomes_a_point(bridge: EngineBridge, speeds: MeasuredSpeeds) -> None:
    told: list[None] = []
    speeds.changed.connect(lambda: told.append(None))
    done = stats(40)
    tell(bridge, ready(CARD), finished(done))
    assert speeds.of(MODEL) == [
        Measured(
            *(str(MODEL), 77.0, Mode.DOVETAIL, CARD.draft, 4, 35),
            *(done.tokens_per_s or 0.0, 40, done.acceptance_length, True, True),
        )
    ]
    assert speeds.of(Path("other")) == []
    assert len(told) == 1


def test_what_says_nothing_about_speed_is_left_out(
    bridge: EngineBridge, speeds: MeasuredSpeeds
) -> None:
    tell(bridge, finished(stats(40)))  # nobody knows of what
    tell(bridge, ready(PLAN), finished(stats(FEWEST_TOKENS - 1)))
    tell(bridge, finished(stats(40), FinishReason.ERROR))
    tell(bridge, finished(replace(stats(40), tokens_per_s=None)))
    tell(bridge, Unloaded(perf_counter()), finished(stats(40)))
    assert speeds.all == ()
    tell(bridge, ready(PLAN), finished(stats(FEWEST_TOKENS), FinishReason.STOPPED))
    assert [point.committed for point in speeds.all] == [FEWEST_TOKENS]


def test_the_modes_of_a_benchmark_become_points(
    bridge: EngineBridge, speeds: MeasuredSpeeds
) -> None:
    runs = (
        ModeRun(Mode.AUTO, CARD, 4, 20.0, 18.0, 21.0, 0.2, 2.2),
        ModeRun(Mode.PLAIN, replace(PLAN, mode=Mode.PLAIN), 4, 9.0),
        ModeRun(Mode.DUO, None, refusal="Needs a draft model."),
    )
    tell(bridge, Compared(perf_counter(), MODEL, runs, complete=False))
    drafted, alone = speeds.of(MODEL)
    assert (drafted.mode, drafted.tokens_per_s, drafted.drafting) == (Mode.DOVETAIL, 20.0, True)
    assert (alone.mode, alone.tokens_per_s, alone.drafting) == (Mode.PLAIN, 9.0, False)


@given(st.lists(POINTS, max_size=60))
def test_the_newest_of_each_setup_are_kept_in_order(points: list[Measured]) -> None:
    kept = bounded(points)
    left = iter(points)
    assert all(any(point is each for each in left) for point in kept), "a part, in the same order"
    assert max(Counter(point.setup for point in kept).values(), default=0) <= MOST_ALIKE
    for setup in {point.setup for point in points}:
        alike = [point for point in points if point.setup == setup]
        assert [point for point in kept if point.setup == setup] == alike[-MOST_ALIKE:]
    assert bounded(kept) == kept


def test_there_are_never_too_many() -> None:
    many = [replace(POINT, vram=number) for number in range(MOST + 20)]
    assert bounded(many) == many[20:]


@given(st.lists(POINTS, min_size=1, max_size=8))
def test_what_is_kept_is_read(
    tmp_path_factory: pytest.TempPathFactory, points: list[Measured]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "deep" / "measured.json"
    MeasuredFile(path).keep(1, points)
    assert MeasuredFile(path).read() == tuple(points)
    assert list(path.parent.iterdir()) == [path]


def test_of_none_no_file_stays(tmp_path: Path) -> None:
    file = MeasuredFile(tmp_path / "measured.json")
    file.keep(1, [POINT])
    file.keep(2, [])
    assert not file.path.exists()
    file.keep(1, [POINT])  # of before
    assert file.read() == ()


def _without_a_member(text: str) -> str:
    return text.replace('"drafting"', '"something"')


@pytest.mark.parametrize(
    "damage",
    [
        lambda _text: "",
        lambda text: text[: len(text) // 2],
        lambda _text: "[" * 100_000,
        _without_a_member,
        lambda text: text.replace("12.5", "-1"),
        lambda text: text.replace("12.5", "NaN"),
        lambda text: text.replace('"dovetail"', '"warp"'),
        lambda text: text.replace('"version": 1', '"version": 2'),
    ],
)
def test_a_damaged_file_begins_anew(damage: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    MeasuredFile(path).keep(1, [POINT])
    whole = path.read_text()
    assert damage(whole) != whole
    path.write_text(damage(whole))
    assert MeasuredFile(path).read() == ()
    MeasuredFile(path).keep(1, [POINT])
    assert MeasuredFile(path).read() == (POINT,)


def test_an_older_revision_never_replaces_a_newer_one(tmp_path: Path) -> None:
    file = MeasuredFile(tmp_path / "measured.json")
    newer = replace(POINT, tokens_per_s=2.0)
    file.keep(2, [newer])
    file.keep(1, [POINT])
    assert file.read() == (newer,)


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = MeasuredFile(tmp_path / "file" / "measured.json")
    file.keep(1, [POINT])
    assert file.read() == ()


def test_points_outlive_the_window(open_desk: Callable[[Script | None], Desk]) -> None:
    answer = " ".join(f"word{number}" for number in range(FEWEST_TOKENS + 6))
    first = open_desk(Script(answer=answer))
    first.ready()
    first.type_and_send("Tell me something.")
    first.bot.waitUntil(lambda: bool(first.assembly.measured.all))
    measured = first.assembly.measured.all
    first.assembly.close()
    again = open_desk(None)
    assert again.assembly.measured.all == measured
    assert measured[0].model == "model"


def test_points_are_kept_while_the_window_is_open(desk: Desk) -> None:
    measured = desk.assembly.measured
    measured._timer.setInterval(0)
    measured.add(POINT)
    path = desk.assembly.paths.measured
    desk.bot.waitUntil(path.exists)
    assert json.loads(path.read_text())["measured"][0]["tokens_per_s"] == POINT.tokens_per_s


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_deleting_them_in_the_settings_forgets_them_in_this_run_too(desk: Desk) -> None:
    measured, path = desk.assembly.measured, desk.assembly.paths.measured
    measured.add(POINT)
    measured.flush()
    assert path.exists()
    desk.assembly.house.show_settings()
    window = desk.assembly.window
    desk.bot.waitUntil(lambda: bool(window.findChildren(PrivacyPage)))  # made after the first one
    (page,) = window.findChildren(PrivacyPage)
    desk.bot.waitUntil(lambda: StoredData.MEASURED in page.places)  # filled row by row
    row = page.places[StoredData.MEASURED]
    (button,) = row.buttons.findChildren(QPushButton)
    button.click()
    assert measured.all == ()
    desk.bot.waitUntil(lambda: not path.exists() and row.size_label.text() == "Empty")
    measured.flush()
    assert not path.exists()
