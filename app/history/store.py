"""The conversation store. Every method is durable against the death of the process on return."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Self

from app.history.answers import Answers
from app.history.database import connect, lock_path
from app.history.lock import FileLock
from app.history.search import SearchIndex
from engine.errors import UserFixable


class HistoryStore(Answers):
    """Conversations in one SQLite file. Use it from the thread that opened it.

    Ids that do not exist raise LookupError: a bug of the caller. Trouble with the file or its
    drive raises `UserFixable`; the call then had no effect and may be repeated.
    """

    read_only = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the history at `path`, creating it and its folder where needed.

        Raises:
            UserFixable: newer version, damage (`set_aside` is the way out), used by another
                process, no permission, no room. The file is left as it is.
        """
        lock = FileLock(lock_path(path))
        try:
            connection = connect(path)
            try:
                return cls(path, connection, lock)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.release()
            raise

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: FileLock) -> None:
        super().__init__(path, connection, lock)
        with self._writing():
            self._settle_interrupted()
            self._settle_leaves()
            self._index = SearchIndex(connection)
            self._purge_deleted()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Purge what was deleted and give the file free. Closing twice is harmless."""
        try:
            with self._writing():
                self._purge_deleted()
        except (UserFixable, sqlite3.ProgrammingError):
            pass  # the next start purges; a closed connection has nothing to purge
        finally:
            self._connection.close()
            self._lock.release()

    def _purge_deleted(self) -> None:
        run = self._connection.execute
        doomed = run("SELECT id FROM conversation WHERE deleted_at IS NOT NULL").fetchall()
        for (conversation_id,) in doomed:
            self._index.remove_conversation(conversation_id)
            run("DELETE FROM conversation WHERE id = ?", (conversation_id,))
        self._index.remove_deleted()
        run("DELETE FROM message WHERE deleted_by IS NOT NULL")
