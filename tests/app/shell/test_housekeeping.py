from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from desk import Desk
from PySide6.QtWidgets import QPushButton

import app.diagnostics.restart
from app.diagnostics.restart import start_again
from app.diagnostics.safe_mode import enter_safe_mode, environment_for, safe_mode_asked
from app.settings_page.dialog import SettingsDialog
from app.settings_page.reports_dialog import ReportsDialog
from app.shell.housekeeping import Housekeeping

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def house(desk: Desk) -> Housekeeping:
    return desk.assembly.house


def press(desk: Desk, text: str) -> None:
    buttons = desk.banners.findChildren(QPushButton)
    next(button for button in buttons if button.text() == text).click()


def fail() -> BaseException:
    try:
        raise IndexError("out of range")
    except IndexError as error:
        return error


def test_an_unforeseen_error_is_told_once_and_can_be_looked_at(desk: Desk) -> None:
    error = fail()
    house(desk).tell_of_error(error)
    house(desk).tell_of_error(error)
    assert desk.banners.texts == ["Something went wrong inside Duotail."]
    press(desk, "Show report")
    dialog = desk.assembly.window.findChild(ReportsDialog)
    assert dialog is not None
    assert dialog.list.count() == 1
    assert "IndexError: out of range" in dialog.text.toPlainText()
    dialog.safe.click()
    assert house(desk).restart is True
    assert not desk.assembly.window.isVisible()


def test_an_error_that_cannot_be_written_down_is_still_told(desk: Desk) -> None:
    desk.assembly.paths.reports.parent.mkdir(exist_ok=True)
    desk.assembly.paths.reports.write_text("in the way")
    house(desk).tell_of_error(fail())
    assert desk.banners.texts == ["Something went wrong inside Duotail."]


def test_another_version_that_is_started_is_told_with_what_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.shell.housekeeping.version", lambda: "1.0")
    house(desk).tell_of_other("1.1")
    (text,) = desk.banners.texts
    assert text == "Duotail 1.1 was started, but this window belongs to Duotail 1.0."


def test_a_crash_is_told_at_the_next_start(desk: Desk) -> None:
    house(desk).tell_of_last_crash()
    assert desk.banners.texts == []
    desk.assembly.paths.crash_log.write_text("Fatal Python error: Segmentation fault\n")
    house(desk).tell_of_last_crash()
    assert desk.banners.texts == ["Duotail crashed last time."]
    desk.banners.clear()
    house(desk).tell_of_last_crash()
    assert desk.banners.texts == []


def test_all_conversations_can_be_deleted_from_the_settings(desk: Desk) -> None:
    for text in ("One", "Two"):
        desk.session.open(None)
        desk.type_and_send(text)
        desk.answered()
    desk.assembly.window.settings_asked.emit()
    dialog = desk.assembly.window.findChild(SettingsDialog)
    assert dialog is not None
    dialog.page.privacy.delete_conversations_asked.emit()
    assert desk.session.conversations.newest_first() == []
    assert desk.session.current is None
    assert desk.banners.texts == ["2 conversations were deleted."]


def test_the_last_conversation_is_opened_only_if_wanted(desk: Desk) -> None:
    desk.type_and_send("One")
    desk.answered()
    window = desk.assembly.window
    desk.assembly.settings.change(reopen_last=False)
    window.open_last()
    assert desk.session.current is None


@pytest.mark.usefixtures("styled")
def test_settings_apply_to_the_open_window(desk: Desk) -> None:
    window = desk.assembly.window
    before = window.font().pointSizeF()
    desk.assembly.settings.change(font_scale=1.6)
    assert window.font().pointSizeF() == pytest.approx(before * 1.6)
    desk.assembly.settings.reset("font_scale")
    assert window.font().pointSizeF() == before


def test_texts_grow_and_shrink_by_key(desk: Desk) -> None:
    window, settings = desk.assembly.window, desk.assembly.settings
    window.activateWindow()
    by_keys = {action.shortcut().toString(): action for action in window.actions()}
    settings.change(font_scale=1.5)
    for _ in range(2):
        by_keys["Ctrl++"].trigger()
    assert settings.value.font_scale == 1.6
    settings.change(font_scale=0.9)
    for _ in range(2):
        by_keys["Ctrl+-"].trigger()
    assert settings.value.font_scale == 0.8
    by_keys["Ctrl+0"].trigger()
    assert settings.value.font_scale == 1.0


def test_safe_mode_lasts_for_one_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUOTAIL_ISA", raising=False)
    monkeypatch.setenv("DUOTAIL_SAFE_MODE", "")
    careful = environment_for(safe=True)
    assert not safe_mode_asked()
    monkeypatch.setattr(os, "environ", careful)
    assert safe_mode_asked()
    enter_safe_mode()
    assert careful["DUOTAIL_ISA"] == "portable"
    assert not safe_mode_asked()
    normal = environment_for(safe=False)
    assert "DUOTAIL_ISA" not in normal
    assert "DUOTAIL_SAFE_MODE" not in normal
    assert environment_for(safe=True) == normal | {"DUOTAIL_SAFE_MODE": "asked"}


def test_starting_again_keeps_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(
        app.diagnostics.restart.subprocess,
        "Popen",
        lambda command, **more: started.append((command, more)),
    )
    monkeypatch.setattr(sys, "argv", ["duotail", "--data-dir", "somewhere"])
    start_again(safe=True)
    ((command, more),) = started
    assert command == [sys.executable, "-m", "app", "--data-dir", "somewhere"]
    assert more["env"]["DUOTAIL_SAFE_MODE"] == "asked"
