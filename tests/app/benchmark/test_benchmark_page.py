"""The benchmark page on a scripted engine: measured, called off, kept, out of date, shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QPushButton

from app.benchmark.benchmark import BenchmarkStage, Stale
from app.benchmark.benchmark_page import BenchmarkPage
from app.benchmark.kept import Kept, KeptReports, fingerprint
from app.benchmark.wording import bars_words, details, notes, plan_words
from app.engine_link.status import Phase
from app.shell.page_names import PageName
from app.showcase.script import MACHINE, PLAN
from app.widgets.table_dialog import TableDialog
from engine.bench.modes.report import rows_of
from engine.commands import Compare, Load, Mode, Preview, Stop, Unload
from engine.events import (
    Compared,
    CompareProgress,
    MachineFound,
    ModeRun,
    Previewed,
)
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import Accelerator

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

MODEL = Path("model")
SIMULATED = Accelerator("simulated:0", "Simulated GPU", memory_total=1, simulated=True)


def run(mode: Mode, speed: float) -> ModeRun:
    plan = replace(PLAN, mode=Mode.CPU if mode is Mode.AUTO else mode)
    return ModeRun(mode, plan, 8, speed, speed - 1, speed + 1, 0.3, 2.5)


RUNS = (
    run(Mode.AUTO, 10),
    run(Mode.DUO, 20),
    ModeRun(Mode.DOVETAIL, None, refusal="There is no room."),
    ModeRun(Mode.CPU, PLAN, same_as=Mode.AUTO),
    run(Mode.PLAIN, 8),
)
UNDER_WAY = CompareProgress(0.0, Mode.DUO, 0.5, (RUNS[0], ModeRun(Mode.DUO, PLAN)))


def script(runs: tuple[ModeRun, ...] = RUNS, winner: Mode = Mode.DUO) -> Script:
    made = Script()
    ended = Compared(0.0, MODEL, runs, complete=True, winner=winner)
    made.compare = [MachineFound(0.0, MACHINE), UNDER_WAY, ended]
    return made


@pytest.fixture
def desk(open_desk: Callable[[Script | None], Desk]) -> Desk:
    """A window whose engine is told to compare what `RUNS` tells."""
    result = open_desk(script())
    result.ready()
    return result


def page_of(desk: Desk) -> BenchmarkPage:
    desk.assembly.window.pages.open(PageName.BENCHMARK)
    page = desk.assembly.window.pages.page(PageName.BENCHMARK)
    assert isinstance(page, BenchmarkPage)
    return page


def click(button: QPushButton) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def measured(desk: Desk) -> BenchmarkPage:
    """The page when all is done and the winner runs."""
    page = page_of(desk)
    click(page.measure_button)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: page.benchmark.outcome is not None)
    desk.ready()
    return page


def of(desk: Desk, kind: type[object]) -> list[object]:
    return [command for command in desk.script.commands if isinstance(command, kind)]


def test_the_button_is_as_wide_as_its_words_before_the_plan_is_known(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    desk = open_desk(replace(script(), preview=None))
    desk.ready()
    page = page_of(desk)
    assert page.stage.isHidden()
    card = page._task.layout()
    assert card is not None
    card.activate()
    assert page.measure_button.width() == page.measure_button.sizeHint().width()


def test_one_click_measures_and_uses_the_winner(desk: Desk) -> None:
    page = page_of(desk)
    assert page.measure_button.isEnabled()
    assert not page.bars.isVisible()
    click(page.measure_button)
    desk.bot.waitUntil(lambda: page.progress.value() == 500)
    assert of(desk, Compare) == [Compare()]
    assert "DuoDecoding" in page.stage.text()
    assert not page.measure_button.isVisible()
    assert [row.mode for row in page.bars.rows] == [Mode.AUTO, Mode.DUO]
    assert "Measuring every mode (50" in desk.chat.status_line.text
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: page.benchmark.running.profile.mode is Mode.DUO)
    desk.ready()
    assert [row.mode for row in page.bars.rows] == [Mode.AUTO, Mode.DUO, Mode.PLAIN]
    assert "20.0 tokens per second, the best here" in page.bars.accessibleDescription()
    desk.bot.waitUntil(lambda: "uses it from now on" in page.outcome.text())
    assert "There is no room." in page.notes.text()
    assert "CPU would run like Automatic." in page.notes.text()
    settings = desk.assembly.settings.value
    assert settings.profiled(MODEL).profile.mode is Mode.DUO
    assert desk.assembly.models.running.kept_load(MODEL).mode is Mode.DUO
    assert desk.assembly.models.running.kept_load(Path("another")).mode is Mode.AUTO


def test_automatic_can_be_chosen_again(desk: Desk) -> None:
    page = measured(desk)
    desk.bot.waitUntil(page.auto_button.isVisible)
    click(page.auto_button)
    desk.bot.waitUntil(page.use_button.isVisible)
    running = desk.assembly.models.running
    desk.bot.waitUntil(lambda: running.kept_load(MODEL).mode is Mode.AUTO)
    click(page.use_button)
    desk.bot.waitUntil(page.auto_button.isVisible)
    desk.bot.waitUntil(lambda: running.kept_load(MODEL).mode is Mode.DUO)


def test_a_mode_chosen_by_hand_goes_before_the_one_that_was_kept(desk: Desk) -> None:
    page = measured(desk)
    running = desk.assembly.models.running
    desk.bot.waitUntil(lambda: not running.pending and running.profile.mode is Mode.DUO)
    running.apply(replace(running.profile, mode=Mode.PLAIN))
    desk.bot.waitUntil(
        lambda: desk.assembly.settings.value.profiled(MODEL).profile.mode is Mode.PLAIN
    )
    assert desk.assembly.settings.value.profiled(MODEL).profile.mode is not Mode.DUO
    assert running.kept_load(MODEL).mode is Mode.PLAIN
    desk.bot.waitUntil(page.use_button.isVisible)


def test_what_a_mode_takes_of_the_card_and_a_mode_cut_short_are_told() -> None:
    row = rows_of((RUNS[1], ModeRun(Mode.PLAIN, PLAN)))
    held = replace(row[0], gpu_bytes=3 << 30)
    assert "3.0" in details(held)[-1]
    assert details(held)[-1].endswith("on the GPU")
    assert len(notes(row, over=True)) == 1 + len(notes(row, over=False))


def test_what_is_too_noisy_is_said_and_changes_nothing(open_desk: Callable[..., Desk]) -> None:
    made = script(winner=Mode.AUTO)
    assert isinstance(made.compare[-1], Compared)
    made.compare[1] = replace(UNDER_WAY, again=True)
    made.compare[-1] = replace(made.compare[-1], noisy=True)
    desk = open_desk(made)
    desk.ready()
    page = page_of(desk)
    click(page.measure_button)
    desk.bot.waitUntil(lambda: page.stage.text().startswith("Too noisy: measuring once more."))
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: "Too noisy to tell" in page.outcome.text())
    assert "best here" not in page.bars.accessibleDescription()
    assert not page.use_button.isVisible()


def test_within_noise_the_automatic_choice_stays(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(script(winner=Mode.AUTO))
    desk.ready()
    page = measured(desk)
    assert len(of(desk, Load)) == 1, "nothing is loaded for it"
    desk.bot.waitUntil(lambda: "as fast as any mode" in page.outcome.text())
    assert desk.assembly.models.running.kept_load(MODEL).mode is Mode.AUTO
    assert not page.auto_button.isVisible()


def test_cancel_leaves_everything_as_it_was(desk: Desk) -> None:
    page = page_of(desk)
    click(page.measure_button)
    desk.bot.waitUntil(lambda: page.progress.value() == 500)
    click(page.cancel_button)
    assert of(desk, Stop)
    desk.bot.waitUntil(lambda: page.benchmark.stage is BenchmarkStage.IDLE)
    assert "not finished" in page.outcome.text()
    assert page.benchmark.report is None
    assert desk.assembly.settings.value.profiled(MODEL).profile.mode is not Mode.DUO
    assert page.measure_button.isEnabled()
    assert desk.assembly.bridge.status.compared is None


def test_escape_stops_it_and_then_leads_back(desk: Desk) -> None:
    page = page_of(desk)
    click(page.measure_button)
    desk.bot.waitUntil(lambda: page.progress.value() == 500)
    desk.bot.keyClick(page.cancel_button, Qt.Key.Key_Escape)
    desk.bot.waitUntil(lambda: page.benchmark.stage is BenchmarkStage.IDLE)
    assert desk.assembly.window.pages.shown is PageName.BENCHMARK


def test_it_begins_when_the_answer_is_written(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello")
    page = page_of(desk)
    assert "measuring starts after it" in page.stage.text()
    click(page.measure_button)
    assert "Starts after the answer" in page.stage.text()
    assert not of(desk, Compare)
    desk.script.gate.set()
    desk.answered()
    desk.bot.waitUntil(lambda: bool(of(desk, Compare)))
    assert not of(desk, Stop)
    desk.bot.waitUntil(lambda: page.benchmark.report is not None)


def test_calling_off_what_has_not_begun_leaves_the_answer_alone(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello")
    page = page_of(desk)
    click(page.measure_button)
    click(page.cancel_button)
    assert page.benchmark.stage is BenchmarkStage.IDLE
    desk.script.gate.set()
    assert desk.answered().text.raw_text == desk.script.answer
    assert not of(desk, Compare)
    assert not of(desk, Stop)


def test_nothing_can_be_measured_without_a_model(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(None)
    desk.ready()
    page = page_of(desk)
    desk.assembly.bridge.submit(Unload())
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    assert not page.measure_button.isEnabled()
    assert "Load a model first" in page._task.about.text()


# -- kept ------------------------------------------------------------------------------------


def test_the_last_result_is_there_after_a_restart(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(script())
    first.ready()
    kept = measured(first).benchmark
    folder = first.assembly.paths.benchmarks
    first.bot.waitUntil(lambda: any(folder.glob("*.json")))
    first.assembly.close()
    again = script()
    second = open_desk(again)
    second.ready()
    assert second.assembly.bridge.status.wanted is not None
    page = page_of(second)
    second.bot.waitUntil(lambda: page.benchmark.report == kept.report)
    second.bot.waitUntil(lambda: len(page.bars.rows) == 3)
    assert second.assembly.models.running.kept_load(MODEL).mode is Mode.DUO


def test_what_has_changed_since_is_said(desk: Desk) -> None:
    page = measured(desk)
    desk.bot.waitUntil(lambda: page.benchmark.report is not None)
    assert page.benchmark.stale is None
    assert not page.stale.isVisible()
    report = page.benchmark.report
    assert report is not None
    page.benchmark.report = replace(report, version="0.0.1")
    assert page.benchmark.stale is Stale.VERSION
    page.benchmark._files, page.benchmark._files_now = "a", "b"
    assert page.benchmark.stale is Stale.MODEL
    page.benchmark.report = replace(report, hardware=replace(report.hardware, cores=77))
    assert page.benchmark.stale is Stale.HARDWARE
    page.refresh()
    assert page.stale.isVisible()
    assert "other hardware" in page.stale.text()


def test_a_damaged_file_is_as_if_not_there(desk: Desk, tmp_path: Path) -> None:
    page = measured(desk)
    report = page.benchmark.report
    assert report is not None
    store, model = KeptReports(tmp_path / "kept"), tmp_path / "a model"
    assert store.read(model) is None
    store.keep(model, Kept(report, "f"))
    assert store.read(model) == Kept(report, "f")
    assert store.read(tmp_path / "another") is None
    (file,) = store.folder.glob("*.json")
    for damage in (b"", b"{", b"[]", b'{"version": 1, "report": {}}', b'{"version": 99}', b"\xff"):
        file.write_bytes(damage)
        assert store.read(model) is None


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    assert fingerprint(tmp_path / "nothing") == ""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"1")
    first = fingerprint(model)
    assert first == fingerprint(model)
    model.write_bytes(b"22")
    assert fingerprint(model) != first


# -- told ------------------------------------------------------------------------------------


def test_the_keyboard_stays_with_the_button(desk: Desk) -> None:
    page = page_of(desk)
    assert page.measure_button.hasFocus()
    desk.bot.keyClick(page.measure_button, Qt.Key.Key_Space)
    desk.bot.waitUntil(lambda: page.progress.value() == 500)
    assert page.cancel_button.hasFocus()
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: page.benchmark.outcome is not None)
    desk.bot.waitUntil(page.measure_button.isVisible)
    assert page.measure_button.hasFocus()


def test_the_text_is_copied_and_saved(desk: Desk, tmp_path: Path) -> None:
    page = measured(desk)
    desk.bot.waitUntil(page.copy_button.isVisible)
    click(page.copy_button)
    text = QGuiApplication.clipboard().text()
    assert "**duo**" in text
    assert "duotail bench modes" in text
    file = tmp_path / "shared.md"
    page.choose_file()
    (dialog,) = page.findChildren(QFileDialog)
    assert dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave
    dialog.fileSelected.emit(str(file))
    dialog.close()
    desk.bot.waitUntil(file.exists)
    assert file.read_text(encoding="utf-8") == text
    page.save(tmp_path / "nowhere" / "shared.md")
    desk.bot.waitUntil(lambda: "could not be written" in " ".join(desk.banners.texts))


def test_a_simulated_accelerator_is_named(desk: Desk) -> None:
    page = page_of(desk)
    assert not page.simulated.isVisible()
    machine = replace(MACHINE, accelerators=(SIMULATED,))
    desk.script.compare[0] = MachineFound(0.0, machine)
    measured(desk)
    desk.bot.waitUntil(page.simulated.isVisible)
    assert "is simulated" in page.simulated.text()
    assert "SIMULATED" in page.facts.text()


def test_what_will_be_measured_is_said_before(desk: Desk) -> None:
    page = page_of(desk)
    (asked, *_) = of(desk, Preview)
    assert asked.load == desk.assembly.bridge.status.wanted  # type: ignore[attr-defined]
    desk.bot.waitUntil(lambda: page.benchmark.preview is not None)
    points = {mode: CurvePoint(0, 0, mode, None, 16.0, 16.0, ()) for mode in Mode}
    curves = [Curve(mode, (point,), 0, 0, 8, 512) for mode, point in points.items()]
    curves[-1] = replace(curves[-1], points=())
    preview = Previewed(0.0, Load(MODEL), MACHINE, PLAN, tuple(curves))
    words = plan_words(preview, Compare())
    assert words == "3 modes fit here; that takes about 2 minutes."
    assert plan_words(None, Compare()) == ""
    assert plan_words(replace(preview, curves=()), Compare()) == ""
    few = plan_words(replace(preview, curves=tuple(curves[:2])), Compare(passes=1, tokens=1))
    assert few == "1 mode fits here; that takes about 10 seconds."


def test_the_numbers_behind_the_bars(desk: Desk) -> None:
    page = measured(desk)
    desk.bot.waitUntil(page.bars.isVisible)
    page.bars.setFocus()
    desk.bot.keyClick(page.bars, Qt.Key.Key_T)
    (dialog,) = page.findChildren(TableDialog)
    assert [row[0] for row in dialog.model.table.rows] == [
        "Automatic (CPU)", "DuoDecoding", "Target alone"
    ]  # fmt: skip
    dialog.close()
    row = rows_of(RUNS)[1]
    told = details(row)
    assert told[:2] == ["19.0 to 21.0", "2.50x the target alone"]
    assert bars_words((), None) == "Nothing measured yet."


def test_every_control_has_a_name_and_can_be_reached(desk: Desk) -> None:
    page = measured(desk)
    desk.bot.waitUntil(page.copy_button.isVisible)
    for button in page.findChildren(QPushButton):
        assert button.text() or button.accessibleName()
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert page.bars.accessibleName()
    assert page.progress.accessibleName()


def test_it_stays_readable_in_a_narrow_window(desk: Desk) -> None:
    page = measured(desk)
    desk.bot.waitUntil(page.bars.isVisible)
    wide = page.bars.height()
    desk.assembly.window.performance.hide()
    desk.assembly.window.resize(700, 700)
    desk.bot.waitUntil(lambda: page.bars.height() > wide)
    bar = page.scroller.horizontalScrollBar()
    assert bar.maximum() == 0
