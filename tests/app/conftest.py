"""A real window on a scripted engine."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

sys.path.insert(0, str(Path(__file__).parent))

from desk import Desk, PatientBot
from fake_engine import FakeEngine, Script

from app.application import Assembly
from app.data_folder.paths import Paths
from app.garbage import GarbageCollector, collect_here
from app.notices import Notice, board
from app.theme.style import style_sheet
from app.theme.theme import Theme, font_scale, in_force
from app.widgets import file_dialog

_HERE = Path(__file__).parent
_elsewhere: list[str] = []
"""Threads in which Python has looked for garbage beside the window's, since the last test."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """What is to be deleted "later" goes with its test, also where no event loop came by.

    Else windows pile up, and each change of theme or text size is made in all of them.
    """
    result = yield
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    GarbageCollector.look()
    if nextitem is None or _HERE not in nextitem.path.parents:
        _leave()
    return result


def _leave() -> None:
    """Leave no garbage of a window to tests whose threads may collect it."""
    if _note_thread not in gc.callbacks:
        return  # all tests were skipped
    gc.collect()
    gc.callbacks.remove(_note_thread)
    application = QApplication.instance()
    assert application is not None
    (collector,) = application.findChildren(GarbageCollector)
    collector.end()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _note_thread(phase: str, _told: dict[str, int]) -> None:
    if phase == "start" and threading.current_thread() is not threading.main_thread():
        _elsewhere.append(threading.current_thread().name)


@pytest.fixture(autouse=True)
def _garbage_goes_here(qapp: QApplication) -> Iterator[None]:
    """Widgets are destroyed in this thread, as in the application, between two tests too.

    Threads that a test leaves behind would collect its widgets.
    """
    collect_here(qapp)
    if _note_thread not in gc.callbacks:
        gc.callbacks.append(_note_thread)
    yield
    seen = _elsewhere.copy()
    _elsewhere.clear()
    assert seen == []


@pytest.fixture(autouse=True)
def _usual_text_size() -> Iterator[None]:
    """The next test begins with texts as large as usual: the theme is shared by all of them."""
    yield
    theme = in_force()
    if theme is not None and font_scale() != 1.0:
        theme.apply(theme.choice, font_scale=1.0)


_NO_FOLDERS = file_dialog.memory


@pytest.fixture(autouse=True)
def _folders_of_this_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs ask the settings of the test's own window, not of one that is gone."""
    monkeypatch.setattr(file_dialog, "memory", _NO_FOLDERS)


@pytest.fixture(autouse=True)
def _nothing_is_measured_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is so slow that something is measured behind its back."""
    monkeypatch.setattr("app.performance.baseline.QUIET_MS", 1 << 30)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:  # noqa: ARG001
    return PatientBot(request)


@pytest.fixture(scope="session")
def theme(qapp: QApplication, request: pytest.FixtureRequest) -> Iterator[Theme]:
    """Fonts and colours; the style sheet is half of what a window costs: see `styled`."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.option.release:
            patch.setattr("app.theme.theme.style_sheet", lambda *_: "")
        # No test is so slow that a window's words are gone before it reads them.
        patch.setattr("app.shell.banner_stack._TOAST_MS", 1 << 30)
        yield Theme(qapp)


@pytest.fixture
def styled(theme: Theme) -> Iterator[None]:
    """With the style sheet, also from day to day."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.theme.theme.style_sheet", style_sheet)
        theme._refresh()
        yield
    theme._refresh()


@pytest.fixture
def notices() -> Iterator[list[Notice]]:
    """What is put up for the user during a test."""
    posted: list[Notice] = []
    take = posted.append
    board().posted.connect(take)
    yield posted
    board().posted.disconnect(take)


@pytest.fixture
def open_desk(
    theme: Theme, qtbot: QtBot, tmp_path: Path
) -> Iterator[Callable[[Script | None], Desk]]:
    """Opens windows on one data folder, one after the other or the last one again."""
    open_now: list[Assembly] = []

    def make(script: Script | None = None) -> Desk:
        script = script or Script()
        assembly = Assembly(
            Paths(tmp_path / "data", tmp_path / "config"),
            theme,
            lambda emit: FakeEngine(emit, script),
            hub=script.make_hub,
        )
        open_now.append(assembly)
        assembly.window.show()
        qtbot.waitExposed(assembly.window)
        assembly.start(lambda: script.starter)
        return Desk(assembly, script, qtbot)

    yield make
    for assembly in open_now:
        assembly.close()
        assembly.window.close()
        assembly.window.deleteLater()


@pytest.fixture
def desk(open_desk: Callable[[Script | None], Desk]) -> Desk:
    """A window with a model ready."""
    result = open_desk(None)
    result.ready()
    return result
