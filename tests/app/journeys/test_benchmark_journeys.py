"""Journey 8: which mode is best here? One click, on the real engine and a simulated accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from traveller import WHOLE, Traveller

from app.benchmark.benchmark import BenchmarkStage
from app.benchmark.benchmark_page import BenchmarkPage
from app.shell.page_names import PageName
from app.theme.theme import Theme
from engine.backend.cpu import native_is_built
from engine.commands import Compare, Mode
from engine.hub.local import default_target

pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support"),
    pytest.mark.skipif(not native_is_built(), reason="the native library is not built"),
]


@pytest.fixture
def guest(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody with a simulated graphics card of 2 GiB."""
    result = Traveller(tmp_path, theme, qtbot, simulate_gpu=2 << 30)
    result.start()
    yield result
    result.leave()


def benchmark(guest: Traveller) -> BenchmarkPage:
    """The page, opened with its keys; its answers are as short as can be told a speed of."""
    guest.keys("Ctrl+4")
    page = guest.window.pages.page(PageName.BENCHMARK)
    assert isinstance(page, BenchmarkPage)
    guest.until(page.isVisible)
    page.benchmark.wish = Compare(passes=1, tokens=12)
    return page


def measured(guest: Traveller) -> BenchmarkPage:
    page = benchmark(guest)
    QTest.mouseClick(page.measure_button, Qt.MouseButton.LeftButton)
    guest.until(lambda: page.benchmark.outcome is not None)
    return page


@pytest.mark.release(reason="a whole comparison")
def test_one_click_and_the_winner_is_used(guest: Traveller) -> None:
    guest.ask("Hello")
    page = measured(guest)
    report = page.benchmark.report
    assert report is not None
    assert report.complete
    assert [row.mode for row in report.rows] == [
        Mode.AUTO, Mode.DUO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN
    ]  # fmt: skip
    assert {row.ran for row in report.rows} == {Mode.DUO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN}
    own = [row.mode for row in report.rows if row.same_as is None]
    guest.until(lambda: [row.mode for row in page.bars.rows] == own)
    running = guest.assembly.models.running
    guest.until(lambda: running.profile.mode is report.winner and not running.pending)
    guest.until(lambda: running.kept_load(default_target()).mode is report.winner)
    assert "is simulated" in page.simulated.text()
    QTest.mouseClick(page.copy_button, Qt.MouseButton.LeftButton)
    shared = QGuiApplication.clipboard().text()
    assert "SIMULATED" in shared
    assert str(Path.home()) not in shared
    guest.keys("Ctrl+4")
    answer = guest.ask("And now?").message
    assert answer.state in WHOLE
    assert len(guest.session.messages) == 4, "nothing of it is in the conversation"


def test_a_message_goes_first(guest: Traveller) -> None:
    """Asked while it measures: the answer is written at once, by the model as it was."""
    before = guest.assembly.bridge.status.wanted
    page = benchmark(guest)
    page.benchmark.wish = Compare(passes=200, tokens=64)
    QTest.mouseClick(page.measure_button, Qt.MouseButton.LeftButton)
    guest.until(lambda: page.benchmark.progress is not None)
    guest.keys("Ctrl+4")
    answer = guest.ask("Hello").message
    assert answer.state in WHOLE
    guest.until(lambda: page.benchmark.stage is BenchmarkStage.IDLE)
    assert page.benchmark.outcome is not None
    assert not page.benchmark.outcome.complete
    assert guest.assembly.bridge.status.wanted == before
    assert guest.assembly.settings.value.profiles == ()
