"""A drive that is full or gone while the window is open: what is on the screen gets there later."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QPushButton

from app.engine_link.measured import Measured
from app.history import AnswerState, HistoryStore, StoredMessage
from app.session import message_drafts
from app.session.message_drafts import Draft
from engine.commands import Mode

MEASURED = Measured("model", 1.5, Mode.PLAIN, None, 0, 0, 12.5, 96, None, True, False)
OpenDesk = Callable[[Script | None], Desk]
ANSWER = "one two three four five six seven eight nine ten eleven twelve " * 40


def button(desk: Desk, text: str) -> QPushButton:
    (found,) = [each for each in desk.banners.findChildren(QPushButton) if each.text() == text]
    return found


@contextmanager
def full(store: HistoryStore) -> Iterator[None]:
    """A history that cannot grow, as on a drive without room."""
    connection = store._file.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        connection.execute("PRAGMA max_page_count = 1000000")


def in_the_middle(desk: Desk) -> None:
    """An answer of which some is stored, and more to come."""
    desk.script.gate, desk.script.hold_after, desk.script.answer = Tickets(), 3, ANSWER
    desk.type_and_send("Count")
    desk.streaming("six ")
    desk.session.writer.save()


def go_on(desk: Desk, rounds: int = len(ANSWER)) -> None:
    for _ in range(rounds):
        desk.script.gate.set()


class Tickets(threading.Event):
    """Lets one round through each time it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self._tickets = threading.Semaphore(0)

    def set(self) -> None:
        self._tickets.release()

    def wait(self, timeout: float | None = None) -> bool:
        return self._tickets.acquire(timeout=timeout)


def stored(desk: Desk) -> list[StoredMessage]:
    """What the file at the history's path holds of the first conversation."""
    path = desk.assembly.paths.history
    copy = path.with_name("copy.sqlite3")
    for suffix in ("", "-wal"):
        shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    with HistoryStore.open_read_only(copy) as store:
        return store.branches.messages(store.conversations.all()[0].id)


def test_an_answer_that_ends_on_a_full_drive_is_stored_when_there_is_room(desk: Desk) -> None:
    in_the_middle(desk)
    with full(desk.assembly.store):
        go_on(desk)
        desk.answered()
        desk.session.writer.saving.settle()
        (told,) = desk.banners.texts
        assert "is full, so your conversations cannot be saved" in told
        desk.session.open(desk.session.current)  # what is shown is not what is stored
        assert desk.session.messages[-1].text == ANSWER
        assert not desk.assembly.window.close(), "it would be lost"
        assert "The last answer is not saved." in desk.banners.texts
        assert not desk.session.send("And " * 5000), "what cannot be kept stays in the composer"
    desk.session.writer.saving.settle()
    assert "Everything is saved again." in desk.banners.texts
    assert not any("is full" in text for text in desk.banners.texts)
    (_, answer) = stored(desk)
    assert (answer.text, answer.state) == (ANSWER, AnswerState.COMPLETE)
    assert desk.assembly.window.close()


def test_the_window_closes_all_the_same_where_the_user_says_so(desk: Desk) -> None:
    in_the_middle(desk)
    with full(desk.assembly.store):
        go_on(desk)
        desk.answered()
        assert not desk.assembly.window.close()
        button(desk, "Close anyway").click()
        assert not desk.assembly.window.isVisible()


def test_what_came_meanwhile_is_stored_before_the_answer_ends(desk: Desk) -> None:
    in_the_middle(desk)
    with full(desk.assembly.store):
        go_on(desk, 150)
        desk.streaming(ANSWER[:2000])
        desk.session.writer.save()
        assert desk.session.writer.saving.owes
    desk.session.writer.saving.settle()
    shown = desk.session.messages[-1]
    live = desk.session.live
    assert live is not None
    assert stored(desk)[-1].text == live.message.text
    assert shown.state is AnswerState.INTERRUPTED
    go_on(desk)
    desk.answered()


def test_nothing_is_added_to_an_answer_that_is_not_stored(desk: Desk) -> None:
    in_the_middle(desk)
    with full(desk.assembly.store):
        go_on(desk, 150)
        desk.streaming(ANSWER[:2000])
        desk.session.stop()
        desk.answered()
        requests = len(desk.script.requests)
        desk.session.continue_answer()
        assert len(desk.script.requests) == requests
    desk.script.hold_after = None
    desk.session.continue_answer()
    desk.answered()
    assert stored(desk)[-1].text == ANSWER


@pytest.mark.release(keep=2, reason="every way")
@pytest.mark.skipif(sys.platform == "win32", reason="files in use cannot be deleted")
@pytest.mark.parametrize("how", ["deleted", "file deleted", "replaced", "moved and back"])
def test_a_history_that_goes_away_is_told_and_put_back(desk: Desk, how: str) -> None:
    paths, saving = desk.assembly.paths, desk.session.writer.saving
    in_the_middle(desk)
    aside = paths.data.with_name("aside")
    if how == "deleted":
        shutil.rmtree(paths.data)
    elif how == "file deleted":
        paths.history.unlink()
    elif how == "replaced":
        shutil.copy(paths.history, paths.history.with_name("other"))
        paths.history.with_name("other").replace(paths.history)
    else:
        paths.data.rename(aside)
    saving.settle()
    if how in ("deleted", "moved and back"):
        assert any("was moved or deleted" in text for text in desk.banners.texts)
    go_on(desk)
    desk.answered()
    if how == "deleted":
        button(desk, "Create the folder again").click()
    elif how == "moved and back":
        aside.rename(paths.data)
    saving.settle()
    assert not saving.owes
    assert [each.text for each in stored(desk)] == ["Count", ANSWER]
    desk.type_and_send("Again")
    desk.answered()
    assert len(stored(desk)) == 4
    assert desk.session.conversations.get(desk.session.current.id if desk.session.current else 0)
    set_aside = [each.name for each in paths.data.iterdir() if "replaced" in each.name]
    assert bool(set_aside) == (how in ("replaced", "file deleted"))


@pytest.mark.skipif(sys.platform == "win32", reason="files in use cannot be deleted")
def test_nothing_that_can_be_made_anew_brings_a_folder_back_that_was_taken_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would seem to be there again, and the offer to create it would be gone."""
    written, write = list[str](), message_drafts._write

    def note(path: Path, draft: Draft) -> None:
        write(path, draft)
        written.append(path.name)

    monkeypatch.setattr(message_drafts, "_write", note)
    desk.type_and_send("Count")
    desk.answered()
    data, drafts = desk.assembly.paths.data, desk.session.drafts
    shutil.rmtree(data)
    drafts.put(7, Draft("half a thought"))
    drafts._save()
    drafts._writer.submit(lambda: None).result()
    desk.assembly.measured._keep(99, (MEASURED,))
    announced = desk.assembly._announced
    assert announced is not None
    announced._tell("Babbler", "")
    assert not data.exists()
    assert "7.json" not in written
    desk.session.writer.saving.settle()
    button(desk, "Create the folder again").click()
    desk.bot.waitUntil(lambda: "7.json" in written)  # what is unsent gets there later


def test_a_draft_that_cannot_be_written_is_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_drafts, "_SAVE_AFTER_MS", 1)
    drafts = desk.session.drafts
    drafts._timer.setInterval(1)
    folder = desk.assembly.paths.data / "drafts"
    folder.write_text("no folder")
    drafts.put(7, Draft("half a thought"))
    desk.bot.waitUntil(lambda: not drafts._unsaved)
    desk.bot.waitUntil(lambda: bool(drafts._unsaved))
    folder.unlink()
    desk.bot.waitUntil((folder / "7.json").exists)


@pytest.mark.usefixtures("unraised")
def test_one_bad_write_holds_up_no_other(desk: Desk) -> None:
    saving, written = desk.session.writer.saving, list[str]()

    def bad() -> None:
        raise AssertionError("a bug")

    saving.write(-1, bad)
    saving.write(-2, lambda: written.append("next"))
    assert written == ["next"]
    assert not saving.owes


@pytest.fixture
def unraised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that are reported do not fail the test."""
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)


def test_what_is_unsent_in_a_chat_in_the_trash_comes_back_with_it(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(None)
    desk.ready()
    desk.type_and_send("Hello")
    desk.answered()
    chat = desk.session.current
    assert chat is not None
    desk.chat.composer.field.setPlainText("not sent yet")
    desk.chat.outgoing.keep()
    desk.session.conversations.delete([chat.id])
    desk.session.drafts._save()
    desk.session.drafts._writer.submit(lambda: None).result()
    desk.session.conversations.refresh()  # as the next start does
    assert desk.session.drafts._folder is not None
    assert (desk.session.drafts._folder / f"{chat.id}.json").exists()
