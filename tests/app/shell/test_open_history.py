"""A history that cannot be used: the window says so, shows what can be read, offers ways out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QPushButton

from app.data_folder.paths import Paths
from app.history import HistoryStore
from engine.errors import UserFixable

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


def test_a_damaged_history_is_shown_and_left_as_it_is(open_desk: OpenDesk, paths: Paths) -> None:
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


def test_damage_found_later_is_told(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    desk.ready()
    desk.assembly.history._found_damaged.emit(UserFixable("Three pages are torn.", "Mend them."))
    desk.bot.waitUntil(
        lambda: any("Three pages" in banner.text for banner in desk.banners._banners)
    )
