"""The very first start: one page that tells what was found, and that goes away for good."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt

from app.diagnostics import restart
from app.engine_link.status import Phase
from app.settings import SettingsStore
from app.shell.first_start import FirstStart, WelcomePage
from engine.machine.facts import Host, Machine

MACHINE = Machine(Host(4, 8 << 30, 6 << 30, "Fast Processor 9000"))


@pytest.fixture
def first_desk(
    open_desk: Callable[[Script | None], Desk], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Script | None], Desk]:
    """A window whose settings were never saved, as `app.application.run` opens it."""
    monkeypatch.setattr("app.shell.first_start._look_here", lambda: MACHINE)

    def make(script: Script | None = None) -> Desk:
        desk = open_desk(script)
        desk.assembly.settings.change(first_start=True)
        desk.assembly.welcome()
        return desk

    return make


def page(desk: Desk) -> WelcomePage | None:
    (found,) = desk.assembly.window.findChildren(FirstStart)
    return found.page


def shown(desk: Desk) -> WelcomePage:
    found = page(desk)
    assert found is not None
    assert found.isVisible()
    return found


def test_it_tells_of_machine_data_and_language_below_the_model(
    first_desk: Callable[[Script | None], Desk],
) -> None:
    desk = first_desk(None)
    desk.ready()
    found, greeting = shown(desk), desk.chat.greeting
    assert greeting._title.text() == "Welcome to Duotail"
    assert "ready" in greeting._line.text()
    assert str(desk.assembly.paths.data) in found.data.about.text()
    assert "CPU core" in found.machine.about.text()
    assert not any(button.isVisible() for button in greeting.examples)
    assert not greeting.more_button.isVisible()
    assert found.start_button.text() == "Start chatting"


def test_without_a_model_the_machine_is_looked_at_and_the_starter_is_one_click(
    first_desk: Callable[[Script | None], Desk],
) -> None:
    desk = first_desk(Script(starter=None))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    found = shown(desk)
    desk.bot.waitUntil(lambda: "Fast Processor 9000" in found.machine.about.text())
    assert "8.0 GiB" in found.machine.about.text().replace("\N{NO-BREAK SPACE}", " ")
    assert desk.assembly.window.starter_offer.fetch_button.isVisible()
    assert found.start_button.text() == "Later"


@pytest.mark.parametrize("how", ["button", "escape", "message"])
def test_it_is_left_and_never_comes_back(
    first_desk: Callable[[Script | None], Desk], how: str
) -> None:
    desk = first_desk(None)
    desk.ready()
    if how == "button":
        shown(desk).start_button.setFocus()
        desk.bot.keyClick(shown(desk).start_button, Qt.Key.Key_Space)
    elif how == "escape":
        desk.bot.keyClick(desk.assembly.window, Qt.Key.Key_Escape)
    else:
        desk.type_and_send("Hello")
        desk.answered()
    assert page(desk) is None
    assert not desk.assembly.settings.value.first_start
    desk.assembly.settings.flush()
    assert not SettingsStore(desk.assembly.settings.path).value.first_start
    if how != "message":
        desk.bot.waitUntil(desk.chat.greeting.examples[0].isVisible)


def test_another_language_asks_for_a_new_start_and_the_page_comes_with_it(
    first_desk: Callable[[Script | None], Desk],
) -> None:
    desk = first_desk(None)
    desk.ready()
    row = shown(desk).language
    desk.assembly.settings.change(language="de")
    desk.bot.waitUntil(row.restart.isVisible)
    desk.bot.mouseClick(row.restart, Qt.MouseButton.LeftButton)
    assert desk.assembly.house.restart is False
    desk.assembly.settings.flush()
    kept = SettingsStore(desk.assembly.settings.path).value
    assert (kept.first_start, kept.language) == (True, "de")


def test_who_used_an_older_version_is_not_greeted(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    assert SettingsStore(file).is_new
    file.write_text('version = 5\ntheme = "dark"\n')
    again = SettingsStore(file)
    assert not again.is_new
    assert not again.value.first_start


def test_a_new_start_runs_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of an AppImage, the file: what it has mounted goes with this process."""
    alone = ["-I", "-B"] if sys.flags.isolated else []
    assert restart._command() == [sys.executable, *alone, "-m", "app"]
    monkeypatch.setenv("APPIMAGE", "/somewhere/Duotail.AppImage")
    monkeypatch.setenv("APPDIR", "/elsewhere")
    assert restart._command()[0] == sys.executable
    monkeypatch.setenv("APPDIR", os.path.dirname(sys.executable))
    assert restart._command() == ["/somewhere/Duotail.AppImage"]
