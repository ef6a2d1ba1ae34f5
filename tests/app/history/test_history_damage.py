"""Files that are damaged, newer, foreign, read-only or full: words instead of lost words."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.history import AnswerState, HistoryStore, set_aside
from app.history.database import connect
from app.history.schema import MIGRATIONS
from engine.errors import UserFixable
from engine.request import SamplingParams

ROOT = Path(__file__).parents[3]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed history of some hundred pages."""
    path = tmp_path / "history.sqlite"
    words = random.Random(1)
    with HistoryStore.open(path) as store:
        for number in range(20):
            conversation = store.conversations.create(f"Chat {number}")
            for _ in range(4):
                text = " ".join(str(words.random()) for _ in range(60))
                store.answers.add_user_message(conversation.id, text)
                answer = store.answers.begin(
                    conversation.id, model="m", sampling=SamplingParams(seed=1)
                )
                store.answers.finish(
                    answer.id,
                    text=text[::-1],
                    token_ids=tuple(range(100)),
                    marks=None,
                    state=AnswerState.COMPLETE,
                    stats=None,
                    signature="s",
                )
    return path


def read_everything(path: Path) -> None:
    with HistoryStore.open(path) as store:
        for conversation in store.conversations.all():
            store.branches.messages(conversation.id)
        store.search("0.12")
        store.search("no")


def test_newer_version_is_refused_and_untouched(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before, listing = filled.read_bytes(), sorted(filled.parent.iterdir())
    with pytest.raises(UserFixable, match="newer version"):
        HistoryStore.open(filled)
    assert filled.read_bytes() == before
    assert sorted(filled.parent.iterdir()) == listing


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"This is not a database, sorry." * 200,
        lambda data: b"\0" * len(data),
        lambda data: data[: len(data) // 2],
        lambda data: data[:4096],
        lambda data: data[:700],
        lambda data: data[:100] + b"\xff" * 3996 + data[4096:],
        lambda data: data[:4096] + random.Random(3).randbytes(len(data) - 4096),
    ],
    ids=["foreign", "zeros", "half", "one page", "part of a page", "schema", "all but header"],
)
def test_damage_is_named_and_can_be_set_aside(filled: Path, damage: object) -> None:
    damaged = damage(filled.read_bytes())  # type: ignore[operator]
    filled.write_bytes(damaged)
    with pytest.raises(UserFixable, match="damaged") as caught:
        HistoryStore.open(filled)
    assert str(filled) in caught.value.cause
    assert filled.read_bytes() == damaged

    kept = set_aside(filled)
    assert kept.read_bytes() == damaged
    assert kept.parent == filled.parent
    with HistoryStore.open(filled) as store:
        assert store.conversations.all() == []


@pytest.mark.release(keep=8, reason="every seed")
@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_never_surprise(filled: Path, seed: int) -> None:
    """Either everything can be read, or a sentence says that the file is damaged."""
    chance = random.Random(seed)
    data = bytearray(filled.read_bytes())
    page = chance.randrange(len(data) // 4096) * 4096
    for _ in range(chance.choice((1, 8, 64))):
        data[page + chance.randrange(4096)] ^= chance.randrange(1, 256)
    filled.write_bytes(data)
    with contextlib.suppress(UserFixable):
        read_everything(filled)
    with contextlib.suppress(FileNotFoundError):
        set_aside(filled)
    read_everything(filled)


@pytest.mark.parametrize("size", [0, 1, 16, 63, 99])
def test_a_stump_of_a_file(filled: Path, size: int) -> None:
    """SQLite takes an empty file for a new database; anything else must not pass for one."""
    filled.write_bytes(filled.read_bytes()[:size])
    if size == 0:
        read_everything(filled)
    else:
        with pytest.raises(UserFixable, match="damaged"):
            HistoryStore.open(filled)
        assert filled.stat().st_size == size


def test_setting_aside_takes_the_journal_along(filled: Path) -> None:
    wal = filled.with_name(filled.name + "-wal")
    wal.write_bytes(b"journal")
    first = set_aside(filled)
    assert first.with_name(first.name + "-wal").read_bytes() == b"journal"
    assert not wal.exists()
    filled.write_bytes(b"again")
    assert set_aside(filled) != first


def test_a_history_in_use_is_not_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path), pytest.raises(UserFixable, match="already using"):
        set_aside(path)
    assert path.exists()


def test_missing_tables_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE conversation(id)")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(UserFixable, match="damaged"):
        HistoryStore.open(path)


def test_migrations_run_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    first = ("CREATE TABLE note(text TEXT)",)
    second = ("ALTER TABLE note ADD COLUMN size INTEGER", "UPDATE note SET size = length(text)")
    connection = connect(path, (first,), ())
    connection.execute("INSERT INTO note VALUES ('four')")
    connection.close()
    for _ in range(2):
        connection = connect(path, (first, second), ("SELECT size FROM note",))
        assert connection.execute("SELECT text, size FROM note").fetchall() == [("four", 4)]
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        connection.close()


def test_failing_migration_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    first, broken = ("CREATE TABLE note(text TEXT)",), ("DROP TABLE note", "NONSENSE")
    connect(path, (first,), ()).close()
    with pytest.raises(UserFixable, match="damaged"):
        connect(path, (first, broken), ())
    connection = connect(path, (first,), ("SELECT text FROM note",))
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_full_drive_says_so_and_loses_nothing(tmp_path: Path) -> None:
    with HistoryStore.open(tmp_path / "history.sqlite") as store:
        conversation = store.conversations.create("kept")
        pages = store._file.connection.execute("PRAGMA page_count").fetchone()[0]
        store._file.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(UserFixable, match="full"):
            store.answers.add_user_message(conversation.id, "x" * 100_000)
        assert store.branches.messages(conversation.id) == []
        store._file.connection.execute("PRAGMA max_page_count = 1000000")
        store.answers.add_user_message(conversation.id, "room again")
        assert [m.text for m in store.branches.messages(conversation.id)] == ["room again"]


READ_ONLY_CHILD = """
import os, sys
from pathlib import Path
from app.history import HistoryStore
from engine.errors import UserFixable
if os.getuid() == 0:
    os.setuid(65534)
try:
    HistoryStore.open(Path(sys.argv[1]))
except UserFixable as error:
    sys.stdout.write(error.cause)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_read_only_places_are_explained(filled: Path, what: str) -> None:
    for folder in (filled.parent, *list(filled.parents)[1:-1]):
        os.chmod(folder, folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    if what == "folder":
        filled.with_name(filled.name + ".lock").unlink()
        filled.parent.chmod(0o555)
    else:
        filled.parent.chmod(0o777)
        filled.with_name(filled.name + ".lock").chmod(0o666)
        filled.chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY_CHILD, str(filled)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    filled.parent.chmod(0o755)
    assert "cannot be written to" in done.stdout, done.stderr
