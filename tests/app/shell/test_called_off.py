"""Escape calls off a load from every page; what it took is told, with a way back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from desk import Desk
from folder_models import FOLDER_TARGET
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton

from app.engine_link.status import Phase
from app.notices import Notice
from app.settings.profiles import ModelProfile
from app.shell.page_names import PageName
from engine.commands import Load, Mode
from engine.events import Calibrated, CalibrationProgress, Failed
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def escape(desk: Desk) -> None:
    desk.bot.keyClick(desk.assembly.window, Qt.Key.Key_Escape)


def begin(desk: Desk, model: Path) -> Load:
    """Begin to load another model, which takes until it is called off."""
    load = Load(model)
    desk.script.load_gate = threading.Event()
    desk.assembly.models.running.begin(load)
    return load


def told(desk: Desk, notices: list[Notice], text: str) -> Notice:
    desk.bot.waitUntil(lambda: any(each.text == text for each in notices))
    (notice,) = (each for each in notices if each.text == text)
    return notice


@pytest.mark.release(keep=2, reason="every page")
@pytest.mark.parametrize("page", [PageName.MODELS, None, *PageName])
def test_a_load_that_escape_calls_off_is_told_and_offered_again(
    desk: Desk, notices: list[Notice], tmp_path: Path, page: PageName | None
) -> None:
    desk.ready()
    if page is not None:
        desk.assembly.window.pages.open(page)
    load = begin(desk, tmp_path / "other.gguf")
    escape(desk)
    notice = told(desk, notices, "Loading “other” was cancelled.")
    assert desk.assembly.window.pages.shown is page
    assert desk.banners.isVisible()
    assert desk.script.load_gate is not None
    desk.script.load_gate.set()
    ((words, again),) = notice.actions
    assert words == "Load again"
    again()
    status = desk.assembly.bridge.status
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model == load.model)
    assert status.phase is Phase.LOADING
    assert notice.text not in desk.banners.texts


def test_a_model_is_named_as_lists_do(desk: Desk, notices: list[Notice], tmp_path: Path) -> None:
    """By what its files say, where they were read, and not by their place."""
    desk.ready()
    models, bridge = desk.assembly.models, desk.assembly.bridge
    desk.script.load_gate = threading.Event()
    models.load_path(FOLDER_TARGET)
    desk.bot.waitUntil(lambda: bridge.status.phase is Phase.LOADING)
    escape(desk)
    told(desk, notices, "Loading “Duotail 7M” was cancelled.")
    listed = KeptModel(tmp_path / "sha256-1", "qwen3:8b", ModelOrigin.DOWNLOADED, 1)
    desk.script.hub.kept = (listed,)
    shelf = desk.assembly.model_manager.services.shelf
    shelf.look()
    desk.bot.waitUntil(lambda: list(shelf.kept) == [listed])
    begin(desk, listed.path)
    escape(desk)
    told(desk, notices, "Loading “qwen3:8b” was cancelled.")


def test_where_no_model_is_left_that_is_said_too(
    desk: Desk, notices: list[Notice], tmp_path: Path
) -> None:
    desk.ready()
    desk.assembly.models.running.unload()
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    begin(desk, tmp_path / "other.gguf")
    escape(desk)
    told(desk, notices, "Loading “other” was cancelled. No model is loaded.")


def test_a_change_that_is_called_off_is_offered_again(desk: Desk, notices: list[Notice]) -> None:
    desk.ready()
    running = desk.assembly.models.running
    desk.script.load_gate = threading.Event()
    running.apply(ModelProfile(mode=Mode.PLAIN))
    escape(desk)
    notice = told(desk, notices, "The change was cancelled: the model runs as before.")
    assert running.in_force == ModelProfile()
    desk.script.load_gate.set()
    ((words, again),) = notice.actions
    assert words == "Apply again"
    again()
    desk.bot.waitUntil(lambda: running.in_force == ModelProfile(mode=Mode.PLAIN))
    model = running.status.model
    assert model is not None
    kept = desk.assembly.settings.value.profiled(model).profile
    assert kept.mode is Mode.PLAIN, "what was applied again is kept"


def test_of_a_load_that_comes_all_the_same_nothing_is_said(
    desk: Desk, notices: list[Notice], tmp_path: Path
) -> None:
    """Nor of one that fails meanwhile, or for which another was chosen: that is told otherwise."""
    desk.ready()
    running, script = desk.assembly.models.running, desk.script
    script.stops_loads = False
    begin(desk, tmp_path / "other.gguf")
    escape(desk)
    assert script.load_gate is not None
    script.load_gate.set()
    desk.bot.waitUntil(lambda: running.status.model == tmp_path / "other.gguf")
    script.fail_load = Failed(0.0, None, "It is broken.", "Take another one.")
    begin(desk, tmp_path / "third.gguf")
    escape(desk)
    script.load_gate.set()
    desk.bot.waitUntil(lambda: any(each.text == "It is broken." for each in notices))
    desk.ready()
    script.fail_load, script.stops_loads = None, True
    begin(desk, tmp_path / "fourth.gguf")
    escape(desk)
    running.begin(Load(tmp_path / "fifth.gguf"))
    script.load_gate.set()
    desk.bot.waitUntil(lambda: running.status.model == tmp_path / "fifth.gguf")
    assert not any("cancelled" in each.text for each in notices)


def test_a_measurement_that_escape_calls_off_is_told(desk: Desk, notices: list[Notice]) -> None:
    desk.ready()
    desk.assembly.window.pages.open(PageName.MODELS)
    desk.tell(CalibrationProgress(0.0, "Reading memory", 0.4))
    escape(desk)
    desk.tell(Calibrated(1.0, None))
    told(desk, notices, "Measuring was cancelled.")
    desk.tell(Calibrated(2.0, None))
    assert [each.text for each in notices].count("Measuring was cancelled.") == 1


def test_the_notice_is_answered_by_keyboard(
    desk: Desk, notices: list[Notice], tmp_path: Path
) -> None:
    desk.ready()
    window, bot = desk.assembly.window, desk.bot
    load = begin(desk, tmp_path / "other.gguf")
    escape(desk)
    told(desk, notices, "Loading “other” was cancelled.")
    field = desk.chat.composer.field
    field.setFocus()
    bot.keyClick(window, Qt.Key.Key_F6)
    button = QApplication.focusWidget()
    assert isinstance(button, QPushButton)
    assert button.text() == "Load again"
    assert desk.script.load_gate is not None
    desk.script.load_gate.set()
    bot.keyClick(button, Qt.Key.Key_Return)
    bot.waitUntil(lambda: desk.assembly.bridge.status.model == load.model)
    assert field.hasFocus()
    bot.keyClick(window, Qt.Key.Key_F6)
    assert field.hasFocus(), "there is no notice any more"


def test_what_was_called_off_is_not_offered_once_something_else_is_chosen(
    desk: Desk, notices: list[Notice], tmp_path: Path
) -> None:
    desk.ready()
    begin(desk, tmp_path / "other.gguf")
    escape(desk)
    notice = told(desk, notices, "Loading “other” was cancelled.")
    assert notice.text in desk.banners.texts
    begin(desk, tmp_path / "third.gguf")
    assert desk.banners.texts == []
    escape(desk)
    told(desk, notices, "Loading “third” was cancelled.")
