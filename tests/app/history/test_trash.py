"""The trash: what is deleted can be brought back for 30 days, and is then really gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.history import HistoryStore, trash
from app.history.trash import KEPT_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [1_000_000_000.0]
    monkeypatch.setattr(trash.time, "time", lambda: now[0])
    return now


def test_what_is_deleted_outlives_the_program(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat, other = store.conversations.create("Soup"), store.conversations.create("Bread")
        first = store.answers.add_user_message(chat.id, "Leeks").id
        second = store.answers.add_user_message(chat.id, "Salt").id
        store.trash.delete_message(second)
        clock[0] += 10
        store.trash.delete_conversation(other.id)
    with HistoryStore.open(path) as store:
        found = store.trash.items()
        assert [(item.title, item.messages) for item in found] == [("Bread", 0), ("Salt", 1)]
        assert found[0].deleted_at == clock[0]
        for item in found:
            store.trash.undelete(item.token)
        assert store.trash.items() == []
        assert {each.title for each in store.conversations.all()} == {"Soup", "Bread"}
        store.branches.show_message(second)
        assert [m.id for m in store.branches.messages(chat.id)] == [first, second]


def test_after_thirty_days_it_is_gone(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        old, kept = store.conversations.create("old"), store.conversations.create("kept")
        store.answers.add_user_message(old.id, "unwanted secret")
        store.trash.delete_conversation(old.id)
        store.trash.delete_message(store.answers.add_user_message(kept.id, "second secret").id)
        clock[0] += KEPT_S - 1
    with HistoryStore.open(path) as store:
        assert len(store.trash.items()) == 2
        clock[0] += 2
    with HistoryStore.open(path) as store:
        assert store.trash.items() == []
        assert [each.title for each in store.conversations.all()] == ["kept"]
    assert b"secret" not in path.read_bytes()


def test_a_deletion_within_a_deletion(tmp_path: Path, clock: list[float]) -> None:
    """Where the clock goes back, what is below is never purged later than what it hangs on."""
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("chat")
        above = store.answers.add_user_message(chat.id, "above").id
        store.trash.delete_message(store.answers.add_user_message(chat.id, "below").id)
        clock[0] -= 1000
        store.trash.delete_message(above)
        clock[0] += KEPT_S + 1
    with HistoryStore.open(path) as store:
        assert store.trash.items() == []
        assert store.branches.messages(chat.id) == []


def test_an_import_that_did_not_end_is_no_trash(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("half")
        store._file.connection.execute(
            "UPDATE conversation SET deleted_at = ? WHERE id = ?", (trash.DOOMED, chat.id)
        )
        assert store.trash.items() == []
    with HistoryStore.open(path) as store:
        count = store._file.connection.execute("SELECT count(*) FROM conversation").fetchone()
    assert count == (0,)
    assert clock
