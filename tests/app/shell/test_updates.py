"""Newer versions in the window: nothing is asked before somebody wants it, nothing is run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.notices import Notice, NoticeKind
from app.shell import updates
from app.shell.updates import UpdateDialog
from tests.releases import FILE, Releases, serving

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def server() -> Iterator[Releases]:
    with serving() as server:
        server.publish("3.0")
        yield server


@pytest.fixture
def asking(desk: Desk, server: Releases, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A window of version 1.0, an AppImage, that asks this server."""
    monkeypatch.setattr(updates, "version", lambda: "1.0")
    monkeypatch.setenv("APPIMAGE", "/somewhere/Duotail.AppImage")
    desk.assembly.settings.change(updates_address=server.address)
    return desk


def dialog(desk: Desk) -> UpdateDialog:
    window = desk.assembly.window
    desk.bot.waitUntil(lambda: bool(window.findChildren(UpdateDialog)))
    (found,) = window.findChildren(UpdateDialog)
    return found


def choose(desk: Desk, words: str) -> None:
    (action,) = (each for each in desk.assembly.window.commands.all if each.text() == words)
    action.trigger()


def test_nothing_is_asked_unless_it_is_allowed(asking: Desk, server: Releases) -> None:
    settings, look = asking.assembly.settings, asking.assembly.house.updates.ask_if_allowed
    assert not settings.value.look_for_updates
    look()
    QApplication.processEvents()
    assert server.asked == []
    settings.change(look_for_updates=True)
    look()
    asking.bot.waitUntil(lambda: server.asked == ["/list.json"])
    assert settings.value.updates_looked == pytest.approx(time.time(), abs=3600)
    look()
    assert server.asked == ["/list.json"], "once a day"


def test_what_was_found_unasked_is_offered(asking: Desk, notices: list[Notice]) -> None:
    asking.assembly.settings.change(look_for_updates=True)
    asking.assembly.house.updates.ask_if_allowed()
    asking.bot.waitUntil(lambda: bool(notices))
    assert (notices[0].kind, notices[0].text) == (NoticeKind.OFFER, "Duotail 3.0 is available.")
    assert not asking.assembly.window.findChildren(UpdateDialog)
    notices[0].choices[0][1]()
    assert "three" in dialog(asking).changes.toPlainText()


def test_a_click_downloads_and_nothing_is_run(
    asking: Desk, server: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(updates, "_downloads", lambda: tmp_path / "Downloads")
    monkeypatch.setattr(updates, "show_folder", shown.append)
    choose(asking, "Check for a new version")
    found = dialog(asking)
    assert "two" in found.changes.toPlainText()
    assert "one" not in found.changes.toPlainText()
    assert server.asked == ["/list.json"]
    asking.bot.mouseClick(found.fetch_button, Qt.MouseButton.LeftButton)
    asking.bot.waitUntil(found.show_button.isVisible)
    path = tmp_path / "Downloads" / "duotail-3.0.AppImage"
    assert path.read_bytes() == FILE
    assert shown == []
    found.show_button.click()
    assert shown == [path]


def test_a_wrong_sum_is_told_and_may_be_tried_again(
    asking: Desk, server: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "_downloads", lambda: tmp_path / "Downloads")
    server.publish("3.0", sha256="0" * 64)
    asking.assembly.house.updates.ask()
    found = dialog(asking)
    found.fetch_button.click()
    asking.bot.waitUntil(found.trouble.isVisible)
    assert "not the one that was published" in found.trouble.text()
    assert found.fetch_button.isEnabled()
    assert not list((tmp_path / "Downloads").iterdir())


def test_the_newest_says_so_and_a_broken_list_too(
    asking: Desk, server: Releases, notices: list[Notice]
) -> None:
    server.publish("1.0")
    asking.assembly.house.updates.ask()
    asking.bot.waitUntil(lambda: bool(notices))
    assert notices[0].text == "Duotail 1.0 is the newest version."
    server.pages.clear()
    asking.assembly.house.updates.ask()
    asking.bot.waitUntil(lambda: len(notices) == 2)
    assert notices[1].text == "The list of versions cannot be read."


def test_the_file_is_that_of_this_kind_of_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("APPIMAGE", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "uv" / "tools" / "duotail"))
    assert (updates.ending(), updates._command()) == ("", "uv tool upgrade duotail")
    Path(sys.prefix).mkdir(parents=True)
    Path(sys.prefix, "duotail").touch()
    assert updates.ending() == "-linux-x86_64.tar.xz"
    (Path(sys.prefix).parent / "uninstall.exe").touch()
    assert updates.ending() == "-setup.exe"
    monkeypatch.setenv("APPIMAGE", "a")
    assert updates.ending() == ".AppImage"
