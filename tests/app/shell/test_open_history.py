"""A history that cannot be used: the window says so, shows what can be read, offers ways out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QPushButton

from app.data_folder.paths import Paths
from app.history import HistoryStore
from app.history.database import lock_path
from app.notices import Notice
from app.shell.open_history import OpenHistory
from engine.errors import UserFixable

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OpenDesk = Callable[[Script | None], Desk]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """The folders that `open_desk` uses."""
    return Paths(tmp_path / "data", tmp_path / "config")


def fill(paths: Paths, chats: int = 40) -> None:
    with HistoryStore.open(paths.history) as store:
        for number in range(chats):
            chat = store.conversations.create(f"Chat {number}")
            store.answers.add_user_message(chat.id, f"question {number} " + "why " * 400)


def damage(paths: Paths) -> bytes:
    """Overwrite pages in the middle; what the file then holds."""
    data = bytearray(paths.history.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 3 * 4096] = b"\xa5" * (3 * 4096)
    paths.history.write_bytes(data)
    return bytes(data)


def button(desk: Desk, text: str) -> QPushButton | None:
    banners = desk.banners.findChildren(QPushButton)
    return next((each for each in banners if each.text() == text), None)


def test_a_damaged_history_is_shown_and_left_as_it_is(
    open_desk: OpenDesk, paths: Paths, notices: list[Notice]
) -> None:
    fill(paths)
    left = damage(paths)
    desk = open_desk(None)
    desk.ready()
    assert desk.assembly.store.read_only
    assert len(desk.session.conversations.newest_first()) > 10
    desk.type_and_send("Is anybody there?")
    assert desk.session.live is None
    assert desk.chat.composer.field.toPlainText() == "Is anybody there?", "nothing typed is lost"
    assert paths.history.read_bytes() == left
    desk.assembly.store.lost = 3
    desk.assembly.history.tell(lambda: None)
    assert "3 messages are missing." in notices[-1].remedy


def test_going_on_with_what_can_be_read(open_desk: OpenDesk, paths: Paths) -> None:
    fill(paths)
    left = damage(paths)
    desk = open_desk(None)
    shown = {each.title for each in desk.session.conversations.newest_first()}
    keep = button(desk, "Continue with what can be read")
    assert keep is not None
    keep.click()
    assert button(desk, "Start again") is not None
    desk.assembly.close()
    with HistoryStore.open(paths.history) as store:
        assert {each.title for each in store.conversations.all()} == shown
    (kept,) = [path for path in paths.data.iterdir() if "damaged" in path.name]
    assert kept.read_bytes() == left


def test_what_is_no_history_at_all_can_be_set_aside(open_desk: OpenDesk, paths: Paths) -> None:
    paths.history.parent.mkdir(parents=True)
    paths.history.write_bytes(b"this is not a database, and was never one" * 100)
    desk = open_desk(None)
    desk.ready()
    desk.type_and_send("Hello")
    desk.answered()  # there is chatting, but nothing is kept
    assert button(desk, "Continue with what can be read") is None
    empty = button(desk, "Start with an empty history")
    assert empty is not None
    empty.click()
    assert not paths.history.exists()
    desk.assembly.close()
    assert not paths.history.exists(), "what is not kept leaves nothing on the disk"


@contextmanager
def no_file_grows() -> Iterator[None]:
    """As on a drive without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limit")
def test_a_start_on_a_full_drive_shows_what_is_there(open_desk: OpenDesk, paths: Paths) -> None:
    fill(paths, chats=3)
    left = paths.history.read_bytes()
    with no_file_grows():
        desk = open_desk(None)
    assert desk.assembly.store.read_only
    assert len(desk.session.conversations.newest_first()) == 3
    assert "failed" in desk.banners.texts[-1]
    assert paths.history.read_bytes() == left


def test_a_start_without_the_right_to_write_shows_what_is_there(
    open_desk: OpenDesk, paths: Paths
) -> None:
    fill(paths, chats=3)
    lock_path(paths.history).unlink()
    lock_path(paths.history).mkdir()  # so that not even root can open it
    desk = open_desk(None)
    desk.ready()
    assert desk.assembly.store.read_only
    assert len(desk.session.conversations.newest_first()) == 3
    assert "cannot be written to" in desk.banners.texts[0]
    assert button(desk, "Start with an empty history") is None, "nothing is wrong with this one"
    again = button(desk, "Try again")
    assert again is not None
    again.click()
    assert desk.assembly.house.restart is False
    assert not desk.assembly.window.isVisible()


def test_damage_found_later_is_told(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    desk.ready()
    desk.assembly.history._found_damaged.emit(UserFixable("Three pages are torn.", "Mend them."))
    desk.bot.waitUntil(
        lambda: any("Three pages" in banner.text for banner in desk.banners._banners)
    )


def test_damage_found_before_there_is_a_window_is_told_then(
    paths: Paths, notices: list[Notice]
) -> None:
    history = OpenHistory(paths.history)
    history._found_damaged.emit(UserFixable("Three pages are torn.", "Mend them."))
    assert not notices
    history.tell(lambda: None)
    history.close()
    assert [each.text for each in notices] == ["Three pages are torn."]
