"""The conversation store. Every method is durable against the death of the process on return."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from app.history.answer_pieces import AnswerPieces
from app.history.answers import Answers
from app.history.branches import Branches
from app.history.conversations import Conversations
from app.history.database import (
    connect,
    is_in_memory,
    is_small,
    lock_path,
    memory_path,
    refuse_newer,
    set_aside,
    translated,
    was_left_open,
)
from app.history.file import HistoryFile
from app.history.folders import Folders
from app.history.lock import FileLock
from app.history.place import Gone
from app.history.records import Hit
from app.history.searcher import HistorySearch
from app.history.trash import Trash
from app.history.trees import Trees
from app.history.upkeep import Upkeep
from engine.errors import UserFixable
from engine.language import tr


class HistoryStore:
    """Conversations in one SQLite file. Use it from the thread that opened it.

    Attributes:
        conversations: their titles, pins and setups.
        folders: which of them lie where.
        branches: the messages of a conversation, and its versions.
        answers: adds messages.
        pieces: adds to an answer that is being written.
        trash: deletes and brings back.
        trees: whole conversations, in and out.

    Ids that do not exist raise LookupError: a bug of the caller. Trouble with the file or its
    drive raises `UserFixable`; the call then had no effect and may be repeated.
    """

    _lock: FileLock | None
    lost = 0
    """Number of messages known to be missing from a damaged history."""

    @property
    def read_only(self) -> bool:
        """True if this is only to look at: whatever changes something is refused."""
        return self._file.read_only

    @property
    def kept(self) -> bool:
        """True if it lies on a disk; else it is gone when it is closed."""
        return not is_in_memory(self.path)

    @classmethod
    def open(cls, path: Path, damaged: Callable[[UserFixable], None] = lambda _: None) -> Self:
        """Open the history at `path`, creating it and its folder where needed.

        A large file is looked over after it has been opened; `damaged` is then called, from another
        thread, if need be.

        Raises:
            UserFixable: newer version, damage (`set_aside` is the way out), used by another
                process, no permission, no room. The file is left as it is.
        """
        lock = FileLock(lock_path(path))
        try:
            checked, crashed = is_small(path), was_left_open(path)
            connection = connect(path)
            try:
                upkeep = Upkeep(path, damaged, checked=checked)
                return cls(path, connection, lock, upkeep, crashed=crashed)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_in_memory(cls, fill: Callable[[sqlite3.Connection], None] = lambda _: None) -> Self:
        """Open a history that needs no disk and is gone when it is closed.

        `fill` puts something into it first.
        """
        path = memory_path()
        with closing(connect(path)) as held:
            fill(held)
            upkeep = Upkeep(path, lambda _: None, checked=True)
            return cls(path, connect(path), None, upkeep, crashed=False)

    @classmethod
    def open_read_only(cls, path: Path) -> Self:
        """Open whatever can be read of a history that cannot be opened: damaged, not writable.

        It is a copy in memory: the file itself is not touched, and no disk needs room.

        Raises:
            UserFixable: it cannot be read at all, nothing is left of it, or it is newer than us.
        """
        from app.history.rescue import rescue

        lost = 0

        def salvage(held: sqlite3.Connection) -> None:
            nonlocal lost
            lost = rescue(path, held)

        try:
            store = cls.open_in_memory(lambda held: _copy(path, held))
            try:
                for conversation in store.conversations.all():
                    store.trees.tree(conversation.id)
            except UserFixable:
                store.close()
                raise
        except UserFixable:
            refuse_newer(path)
            with _readable(path):
                store = cls.open_in_memory(salvage)
        store.lost, store._file.read_only = lost, True  # noqa: SLF001 - our own
        return store

    def keep(self, path: Path) -> Path:
        """Make what could be read the history at `path`; the new name of what was there.

        Raises:
            UserFixable: the place cannot be written to. The old file is then still there.
        """
        kept = set_aside(path)
        self._write_to(path)
        return kept

    def find_place(self) -> None:
        """Make sure that what is stored now will be found again, where need be at a new place.

        A history that was deleted under us is written anew as soon as its folder is there, from the
        open file, which lives on without a name. One whose drive comes back is opened again.

        Raises:
            NoPlace: there is no place yet. Everything stays in memory.
        """
        try:
            self._file.require_place()
        except Gone:
            if not (self._file.same_drive or self.path.exists()):
                raise
            self._move_in()

    def _move_in(self) -> None:
        path, part, file = self.path, self.path.with_name(self.path.name + ".part"), self._file
        assert self._lock is not None  # noqa: S101 - what lies in memory has no place to lose
        old, copied = file.connection, file.same_drive
        try:
            if copied:
                self._write_to(part)
            self._lock.release()
            if copied:
                set_aside(path, "replaced")
            self._lock = FileLock(lock_path(path))
            if copied:
                part.replace(path)
            try:
                fresh = connect(path)
            except UserFixable:
                if copied:
                    path.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Gone(path, str(error)) from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        file.upkeep.stop()
        upkeep = Upkeep(path, lambda _: None, checked=True)
        file.connect_anew(fresh, upkeep)
        upkeep.start()
        old.close()

    def _write_to(self, path: Path) -> None:
        with translated(path), closing(sqlite3.connect(path)) as fresh:
            self._file.connection.backup(fresh)

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: FileLock | None,
        upkeep: Upkeep,
        *,
        crashed: bool,
    ) -> None:
        self._file = file = HistoryFile(path, connection, upkeep)
        self.path = path
        self.conversations, self.folders = Conversations(file), Folders(file)
        self.pieces = AnswerPieces(file)
        self.branches = Branches(file, self.pieces)
        self.answers = Answers(file, self.branches)
        self.trash = Trash(file, self.branches)
        self.trees = Trees(file)
        self._lock = lock
        self._searcher: HistorySearch | None = None
        with file.writing():
            self.pieces.settle()
            if crashed:
                self.branches.settle(everywhere=True)
        self.trash.purge()
        upkeep.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def search(self, query: str, limit: int = 200) -> list[Hit]:
        """Return where all words of the query are: in titles, then in messages, each newest first.

        A window searches with a `HistorySearch` in another thread instead.
        """
        if self._searcher is None:
            self._searcher = HistorySearch(self.path)
        return self._searcher.search(query, limit)

    def wait_until_indexed(self) -> bool:
        """Wait until every message is in the search index, some 100 s at most; for measurements."""
        return self._file.upkeep.wait_until_idle()

    def close(self) -> None:
        """Give the file free. Closing twice is harmless."""
        self._file.upkeep.stop()
        if self._searcher is not None:
            self._searcher.close()
        try:
            with self._file.writing():
                self.branches.settle()
            self.trash.purge()
        except (UserFixable, sqlite3.ProgrammingError):
            pass  # the next start purges; a closed connection has nothing to purge
        finally:
            self._file.connection.close()
            if self._lock is not None:
                self._lock.release()


def _copy(path: Path, held: sqlite3.Connection) -> None:
    """Copy what is at `path` into an open history."""
    from app.history.salvage import whole

    with _readable(path):
        content = whole(path)
    with translated(path), closing(sqlite3.connect(":memory:")) as copy:
        if content:
            copy.deserialize(content)
            copy.backup(held)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserFixable(
            tr("The history {path} cannot be read.").format(path=path),
            tr("Check the permissions of the file and its folder."),
            str(error),
        ) from error
