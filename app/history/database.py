"""Opening the file: checks before anything is written, migrations, SQLite's errors in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path

from app.history.lock import FileLock
from app.history.place import NoPlace, full_words, is_full
from app.history.schema import MIGRATIONS, PROBES, Migration
from engine.errors import UserFixable
from engine.language import tr

SIDE_FILES = ("-wal", "-shm", "-journal")
_HEADER_BYTES = 100
_SMALL = 16_000_000
_VERSION = slice(60, 64)  # user_version in the header of an SQLite file, big-endian
_IN_MEMORY = Path("in memory")
_numbers = count(1)


def memory_path() -> Path:
    """Return where a new history lies that is kept in memory while it has a connection."""
    return _IN_MEMORY / str(next(_numbers))


def is_in_memory(path: Path) -> bool:
    """Return whether `memory_path` gave this path: nothing of it is on a disk."""
    return path.parent == _IN_MEMORY


def lock_path(path: Path) -> Path:
    """Return where the lock of the history at `path` lives."""
    return path.with_name(path.name + ".lock")


def connect(
    path: Path, migrations: Sequence[Migration] = MIGRATIONS, probes: Sequence[str] = PROBES
) -> sqlite3.Connection:
    """Open and check the file, and bring it to the newest version. The caller holds the lock.

    Raises:
        UserFixable: newer version, damage, no room, no permission. The file stays as it is.
    """
    refuse_newer(path, len(migrations))
    with translated(path):
        connection = _open(path)
        try:
            _prepare(connection, path, migrations, probes)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Migration],
    probes: Sequence[str],
) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    _refuse_newer(version, len(migrations), path)
    if is_small(path):
        check(connection, path)
    _set_up(connection)
    try:
        for number, steps in enumerate(migrations[version:], start=version + 1):
            _migrate(connection, number, steps)
        for probe in probes:
            connection.execute(probe)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise damaged(path, str(error)) from error  # tables or columns are missing


def _set_up(connection: sqlite3.Connection) -> None:
    # WAL with NORMAL: a commit survives the death of the process without waiting for the disk.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -16000")  # KiB: a long conversation and its index
    connection.execute("PRAGMA secure_delete = ON")  # deleted words are really gone


def work_connection(path: Path) -> sqlite3.Connection:
    """Open another connection to a file of the store, for another thread."""
    connection = _open(path)
    _set_up(connection)
    return connection


def read_connection(path: Path) -> sqlite3.Connection:
    """A connection that only reads, and reads damaged letters as well."""
    connection = _open(path, read_only=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA cache_size = -16000")
    return connection


def _open(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    address = str(path)
    if is_in_memory(path):
        address = f"file:/duotail-{path.name}?vfs=memdb"
    elif read_only:
        address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=address != str(path), isolation_level=None, timeout=2.0)


def is_small(path: Path) -> bool:
    """Return whether a check of the whole file takes no time; others are checked later."""
    return not path.exists() or path.stat().st_size <= _SMALL


def was_left_open(path: Path) -> bool:
    """Return whether the last process died with the file open: its journal is still there."""
    return path.with_name(path.name + SIDE_FILES[0]).exists()


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Look over the whole file: about a second for 500 MB.

    Raises:
        UserFixable: it is damaged.
    """
    findings = [row[0] for row in connection.execute("PRAGMA quick_check(5)")]
    findings = [each for each in findings if "message_group" not in each]  # derived data
    if findings not in (["ok"], []):
        raise damaged(path, "; ".join(findings))


def _migrate(connection: sqlite3.Connection, number: int, steps: Migration) -> None:
    with transaction(connection):
        for step in steps:
            if isinstance(step, str):
                connection.execute(step)
            else:
                step(connection)
        connection.execute(f"PRAGMA user_version = {number}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all or nothing. SQLite may have rolled back by itself already (disk full)."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file and its surroundings into `UserFixable`."""
    try:
        yield
    except sqlite3.Error as error:
        fixable = _explain(error, path)
        if fixable is None:
            raise
        raise fixable from error


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Rename a history to a dated name next to it, so that another one can take its place.

    Nothing is deleted; the new name, which says why, is returned.

    Raises:
        UserFixable: another process uses the history, or the folder cannot be written to.
    """
    lock = FileLock(lock_path(path))
    try:
        target = _free_name(path, why)
        # The main file goes last: a stranded -wal would be replayed into the fresh history.
        for suffix in (*SIDE_FILES, ""):
            source = path.with_name(path.name + suffix)
            if source.exists():
                source.rename(target.with_name(target.name + suffix))
    except OSError as error:
        raise UserFixable(
            tr("The damaged history {path} could not be renamed.").format(path=path),
            tr("Rename or move it by hand, then start Duotail again."),
            str(error),
        ) from error
    finally:
        lock.release()
    return target


def _free_name(path: Path, why: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    number = 1
    while True:
        tail = stamp if number == 1 else f"{stamp}-{number}"
        target = path.with_name(f"{path.stem}-{why}-{tail}{path.suffix}")
        if not any(target.with_name(target.name + s).exists() for s in ("", *SIDE_FILES)):
            return target
        number += 1


def _version_in_header(path: Path) -> int:
    """The version without opening a database, so that a newer file is not even touched; or 0."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise NoPlace(
            tr("The history {path} cannot be opened.").format(path=path),
            tr("Check the permissions of the file and its folder."),
            str(error),
        ) from error
    if header and len(header) < _HEADER_BYTES:  # SQLite would take a stump for a new file
        raise damaged(path, f"only {len(header)} bytes are left")
    if not header.startswith(b"SQLite format 3\0"):
        return 0
    return int.from_bytes(header[_VERSION], "big", signed=True)


def refuse_newer(path: Path, known: int = len(MIGRATIONS)) -> None:
    """Raise `UserFixable` if a newer Duotail wrote the file; it is not even opened."""
    _refuse_newer(_version_in_header(path), known, path)


def _refuse_newer(version: int, known: int, path: Path) -> None:
    if version > known:
        raise UserFixable(
            tr("Your conversations were saved by a newer version of Duotail."),
            tr("Update Duotail to open them; the file was not changed."),
            f"{path} has version {version}, this Duotail knows {known}.",
        )
    if version < 0:
        raise damaged(path, f"version {version}")


def damaged(path: Path, details: str) -> UserFixable:
    """Return the error for a file whose content makes no sense."""
    return UserFixable(
        tr("The conversation history {path} is damaged.").format(path=path),
        tr(
            "Set it aside and start with an empty history, or restore it from a backup; "
            "nothing is deleted."
        ),
        details,
    )


def _explain(error: sqlite3.Error, path: Path) -> UserFixable | None:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    details = f"{path}: {error} ({getattr(error, 'sqlite_errorname', 'no code')})"
    if code == sqlite3.SQLITE_IOERR and is_full(path.parent):
        code = sqlite3.SQLITE_FULL
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, details)
    words = {
        sqlite3.SQLITE_FULL: full_words(path.parent),
        sqlite3.SQLITE_READONLY: (
            tr("The history {path} cannot be written to.").format(path=path),
            tr("Make the file and its folder writable for your user."),
        ),
        sqlite3.SQLITE_CANTOPEN: (
            tr("The history {path} cannot be opened.").format(path=path),
            tr("Check the permissions of the file and its folder."),
        ),
        sqlite3.SQLITE_BUSY: (
            tr("Another program is using the history {path}.").format(path=path),
            tr("Close that program and try again."),
        ),
        sqlite3.SQLITE_IOERR: (
            tr("Reading or writing the history {path} failed.").format(path=path),
            tr("Check that the drive is connected, healthy and not full, then try again."),
        ),
    }
    found = words.get(code)
    return NoPlace(*found, details) if found else None
