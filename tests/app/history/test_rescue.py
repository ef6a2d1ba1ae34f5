"""What cannot be opened can still be read, taken away, and gone on with."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.history import AnswerState, HistorySearch, HistoryStore, salvage, set_aside
from app.history.database import connect
from app.history.exchange import export_json, import_text
from app.history.salvage import rows
from app.history.schema import MIGRATIONS
from engine.errors import UserFixable
from engine.request import Role, SamplingParams

CHATS, TURNS = 20, 4


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed history of some hundred pages, with long texts that overflow theirs."""
    path = tmp_path_factory.mktemp("original") / "history.sqlite"
    with HistoryStore.open(path) as store:
        folder = store.folders.create("Work")
        for number in range(CHATS):
            chat = store.conversations.create(f"Chat {number}")
            store.folders.put(chat.id, folder.id)
            for turn in range(TURNS):
                store.answers.add_user_message(chat.id, f"question {number}.{turn} " + "why " * 30)
                begun = store.answers.begin(chat.id, model="m", sampling=SamplingParams(seed=turn))
                store.answers.finish(
                    begun.id,
                    text=f"answer {number}.{turn} " + "because " * (999 if turn % 2 else 9),
                    token_ids=tuple(range(50)),
                    marks=None,
                    state=AnswerState.COMPLETE,
                    stats=None,
                    signature="s",
                )
        gone = store.conversations.create("gone")
        store.answers.add_user_message(gone.id, "deleted words")
        store.trash.delete_conversation(gone.id)
        assert store._file.upkeep.wait_until_idle()
    return path


@pytest.fixture
def filled(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "history.sqlite"))


def texts(store: HistoryStore) -> set[str]:
    return {m.text for chat in store.conversations.all() for m in store.branches.messages(chat.id)}


def everything(path: Path) -> set[str]:
    with HistoryStore.open(path) as store:
        return texts(store)


def test_pages_tell_what_sqlite_tells(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        expected = {row[0]: row[1] for row in connection.execute("SELECT id, text FROM message")}
    broken: list[None] = []
    found = {
        number: values[4]
        for number, values in rows(filled, lambda: broken.append(None))
        if len(values) >= 14
    }
    assert found == expected
    assert broken == []


@pytest.mark.parametrize(
    ("damage", "share"),
    [
        (lambda data: data[: len(data) // 2], 0.2),
        (lambda data: b"\0" * 4096 + data[4096:], 0.95),
        (lambda data: data[:100] + b"\xff" * 3996 + data[4096:], 0.95),
        (lambda data: data[:40_960] + random.Random(3).randbytes(8_192) + data[49_152:], 0.8),
    ],
    ids=["half", "first page", "schema", "two pages"],
)
def test_a_damaged_history_is_read_as_far_as_it_goes(
    filled: Path, damage: Callable[[bytes], bytes], share: float
) -> None:
    before = everything(filled)
    damaged = damage(filled.read_bytes())
    filled.write_bytes(damaged)
    with pytest.raises(UserFixable, match="damaged"):
        HistoryStore.open(filled)
    with HistoryStore.open_read_only(filled) as store:
        assert store.read_only
        found = texts(store)
        assert found <= before
        assert len(found) >= share * len(before)
        assert store.lost > 0 or len(found) == len(before)
        exported = export_json(store.trees, [chat.id for chat in store.conversations.all()])
        some = next(iter(found)).split()[1]
        assert store.search(some)
        with HistorySearch(store.path) as beside:
            assert beside.search(some)
        with pytest.raises(UserFixable, match="read-only"):
            store.conversations.create("new")
    assert filled.read_bytes() == damaged
    assert not store.path.exists()
    set_aside(filled)
    with HistoryStore.open(filled) as store:
        import_text(store.trees, exported)
        assert texts(store) == found


@pytest.mark.parametrize(
    "record",
    [
        b"\x05\x01",  # a header longer than the record
        b"\x02\x0b",  # a kind that there is not
        b"\x02\x17abc",  # a text longer than the record
        b"\x02\x06\0\0",  # a number cut off
    ],
)
def test_a_record_that_cannot_be_is_told(record: bytes) -> None:
    assert salvage._record(b"\x03\x01\x11\x07ab") == [7, "ab"]
    with pytest.raises(salvage.Broken):
        salvage._record(record)


def test_cells_that_cannot_be_are_told(filled: Path) -> None:
    pages = salvage.Pages(filled)
    for cell in (b"\x00\x01", b"\x7f\x01ab"):
        with pytest.raises(salvage.Broken):
            salvage._cell(pages, cell, 0)
    assert salvage._varint(b"\x80" * 7 + b"\x81\x02", 0) == (1 << 8 | 2, 9)


def test_what_could_be_read_becomes_the_history(filled: Path) -> None:
    damaged = b"\0" * 4096 + filled.read_bytes()[4096:]
    filled.write_bytes(damaged)
    with HistoryStore.open_read_only(filled) as store:
        found = texts(store)
        kept = store.keep(filled)
    assert kept.read_bytes() == damaged
    with HistoryStore.open(filled) as store:
        assert texts(store) == found
        assert len(found) == CHATS * TURNS * 2
        chat = store.conversations.all()[-1]
        assert [m.role for m in store.branches.messages(chat.id)] == [
            Role.USER,
            Role.ASSISTANT,
        ] * TURNS
        assert store.branches.messages(chat.id)[1].token_ids == tuple(range(50))
        assert [folder.id for folder in store.folders.all()] == [chat.folder_id]
        store.answers.add_user_message(chat.id, "and on")
        assert store._file.upkeep.wait_until_idle()
        assert len(store.search("question")) == CHATS * TURNS


def test_what_was_said_last_is_in_the_journal(filled: Path, tmp_path: Path) -> None:
    with HistoryStore.open(filled) as store:
        chat = store.conversations.all()[0]
        store.answers.add_user_message(chat.id, "said last")
        begun = store.answers.begin(chat.id, model="m", sampling=SamplingParams())
        for piece in ("half ", "an answer"):
            store.pieces.append(begun.id, piece, [1], None)
        crashed = tmp_path / "crashed.sqlite"
        for suffix in ("", "-wal"):
            source = filled.with_name(filled.name + suffix)
            shutil.copy(source, crashed.with_name(crashed.name + suffix))
    wal = crashed.with_name(crashed.name + "-wal")
    assert b"said last" in wal.read_bytes()
    with HistoryStore.open_read_only(crashed) as store:
        assert {"said last", "half an answer"} < texts(store)
        assert store.lost == 0
    data = bytearray(crashed.read_bytes())
    data[100:4096] = b"\xff" * 3996
    journal = bytearray(wal.read_bytes())
    for frame in range(32, len(journal), 4120):  # the schema is damaged in the journal as well
        if journal[frame : frame + 4] == b"\0\0\0\1":
            journal[frame + 124 : frame + 4120] = b"\xff" * 3996
    crashed.write_bytes(data)
    wal.write_bytes(journal)
    with HistoryStore.open_read_only(crashed) as store:
        assert {"said last", "half an answer"} < texts(store)


@pytest.mark.release(keep=12, reason="every seed")
@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_leave_most_of_it(filled: Path, seed: int) -> None:
    before = everything(filled)
    chance = random.Random(seed)
    data = bytearray(filled.read_bytes())
    page = chance.randrange(len(data) // 4096) * 4096
    for _ in range(chance.choice((1, 8, 64))):
        data[page + chance.randrange(4096)] ^= chance.randrange(1, 256)
    filled.write_bytes(data)
    with HistoryStore.open_read_only(filled) as store:
        found = texts(store)
    assert len(found & before) >= 0.7 * len(before)


@pytest.mark.parametrize(
    "content", [b"", b"This is not a database, sorry." * 200, b"\0" * 9_000, b"SQLite format 3\0"]
)
def test_nothing_left_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(content)
    if content:
        with pytest.raises(UserFixable, match="damaged"):
            HistoryStore.open_read_only(path)
    else:  # a new file
        with HistoryStore.open_read_only(path) as store:
            assert store.conversations.all() == []
    with pytest.raises(UserFixable, match="cannot be read"):
        HistoryStore.open_read_only(tmp_path / "missing.sqlite")


def test_a_newer_history_is_not_taken_for_a_damaged_one(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(UserFixable, match="newer version"):
        HistoryStore.open_read_only(filled)


def test_a_history_of_version_1_is_read_without_touching_it(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(connect(path, MIGRATIONS[:1], ())) as connection:
        connection.execute("INSERT INTO conversation VALUES (7, 'old', 1.0, 2.0, NULL, NULL)")
    before = path.read_bytes()
    with HistoryStore.open_read_only(path) as store:
        assert [chat.title for chat in store.conversations.all()] == ["old"]
    assert path.read_bytes() == before


def test_a_large_history_opens_at_once_and_is_looked_over_afterwards(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.history.database._SMALL", 0)
    found: list[UserFixable] = []
    with HistoryStore.open(filled, found.append) as store:
        assert store._file.upkeep.wait_until_idle()
    assert found == []
    data = bytearray(filled.read_bytes())
    with closing(sqlite3.connect(filled)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'message_by_parent'"
        ).fetchone()
    data[(page - 1) * 4096 : (page - 1) * 4096 + 64] = b"\xff" * 64
    filled.write_bytes(data)
    with HistoryStore.open(filled, found.append) as store:
        assert store._file.upkeep.wait_until_idle()
    assert [str(error).split(" is damaged")[0] for error in found] == [
        f"The conversation history {filled}"
    ]
