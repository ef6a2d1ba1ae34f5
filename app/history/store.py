"""The conversation store. Every method is durable against the death of the process on return."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from app.history.database import connect, damaged, lock_path, transaction, translated
from app.history.lock import FileLock
from app.history.records import (
    AnswerState,
    Conversation,
    StoredMessage,
    UndoToken,
    clean_text,
    pack_ids,
    pack_seed,
    pack_stats,
    unpack_ids,
    unpack_seed,
    unpack_stats,
)
from app.history.search import SearchIndex, index_broken, words_of
from engine.errors import UserFixable
from engine.events import AnswerStats
from engine.request import Role

# From the active leaf to the root. parent_id < id ends the walk even in a damaged file.
_BRANCH = """
WITH RECURSIVE branch(id, parent_id) AS (
    SELECT m.id, m.parent_id FROM conversation c JOIN message m ON m.id = c.active_leaf
    WHERE c.id = ?
    UNION ALL
    SELECT m.id, m.parent_id FROM message m JOIN branch b ON m.id = b.parent_id AND m.id < b.id
)
SELECT id, role, text, token_ids, state, stats, seed, model, temperature, signature
FROM message WHERE id IN (SELECT id FROM branch) ORDER BY id
"""


class HistoryStore:
    """Conversations in one SQLite file. Use it from the thread that opened it.

    Ids that do not exist raise LookupError: a bug of the caller. Trouble with the file or its
    drive raises `UserFixable`; the call then had no effect and may be repeated.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: FileLock) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        with self._writing():
            self._settle_interrupted()
            self._index = SearchIndex(connection)
            self._purge_deleted()

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

    # -- conversations ---------------------------------------------------------------------

    def conversations(self, query: str = "") -> list[Conversation]:
        """All conversations, newest first; with a query those that contain each of its words."""
        words = words_of(clean_text(query))
        with translated(self.path):
            try:
                return self._find(words)
            except sqlite3.DatabaseError as error:
                if not index_broken(error):
                    raise
        with self._writing():
            self._index.give_up()
            return self._find(words)

    def _find(self, words: list[str]) -> list[Conversation]:
        conditions = ["c.deleted_at IS NULL"]
        arguments: list[str] = []
        for word in words:
            condition, values = self._index.condition(word)
            conditions.append(condition)
            arguments.extend(values)
        rows = self._connection.execute(
            f"SELECT c.id, c.title, c.updated_at FROM conversation c"  # noqa: S608 - fixed parts
            f" WHERE {' AND '.join(conditions)} ORDER BY c.updated_at DESC, c.id DESC",
            arguments,
        )
        return [Conversation(*row) for row in rows]

    def create_conversation(self, title: str = "") -> Conversation:
        """Start an empty conversation."""
        now, title = time.time(), clean_text(title)
        with self._writing():
            row = self._connection.execute(
                "INSERT INTO conversation(title, created_at, updated_at) VALUES (?, ?, ?)",
                (title, now, now),
            )
        return Conversation(_row_id(row), title, now)

    def rename(self, conversation_id: int, title: str) -> None:
        """Give a conversation another title; its place in the list stays."""
        with self._writing():
            self._update(
                "UPDATE conversation SET title = ? WHERE id = ?",
                (clean_text(title), conversation_id),
            )

    def delete(self, conversation_id: int) -> UndoToken:
        """Hide a conversation. It is purged at `close`; until then the token brings it back."""
        with self._writing():
            self._update(
                "UPDATE conversation SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL",
                (time.time(), conversation_id),
            )
        return UndoToken(conversation_id)

    def undelete(self, token: UndoToken) -> None:
        """Bring a deleted conversation back, complete and in its old place."""
        with self._writing():
            self._update("UPDATE conversation SET deleted_at = NULL WHERE id = ?", (token,))

    # -- messages --------------------------------------------------------------------------

    def messages(self, conversation_id: int) -> list[StoredMessage]:
        """The active branch, oldest first; an answer in progress with all it has so far."""
        with translated(self.path):
            rows = self._connection.execute(_BRANCH, (conversation_id,)).fetchall()
            pieces = {
                row[0]: self._pieces(row[0]) for row in rows if row[4] == AnswerState.INTERRUPTED
            }
        try:
            return [_message(row, *pieces.get(row[0], ("", b""))) for row in rows]
        except ValueError as error:  # an unknown role or state
            raise damaged(self.path, str(error)) from error

    def add_user_message(self, conversation_id: int, text: str) -> StoredMessage:
        """Append what the user said to the active branch."""
        text = clean_text(text)
        with self._writing():
            message_id = self._add(conversation_id, Role.USER, text, AnswerState.COMPLETE)
            self._index.put(message_id, text)
        return StoredMessage(message_id, Role.USER, text, None, AnswerState.COMPLETE, None, 0, "")

    def begin_answer(
        self, conversation_id: int, *, model: str, seed: int, temperature: float
    ) -> StoredMessage:
        """Append an empty answer to the active branch; INTERRUPTED until it is finished."""
        model, state = clean_text(model), AnswerState.INTERRUPTED
        with self._writing():
            message_id = self._add(conversation_id, Role.ASSISTANT, "", state)
            self._update(
                "UPDATE message SET token_ids = x'', model = ?, seed = ?, temperature = ?"
                " WHERE id = ?",
                (model, pack_seed(seed), temperature, message_id),
            )
        return StoredMessage(
            message_id, Role.ASSISTANT, "", (), state, None, seed, model, temperature
        )

    def resume_answer(self, message_id: int) -> None:
        """Reopen an answer to be continued: INTERRUPTED again, its text and ids kept."""
        with self._writing():
            self._update(
                "UPDATE message SET state = ? WHERE id = ? AND role = ?",
                (AnswerState.INTERRUPTED, message_id, Role.ASSISTANT),
            )

    def append_to_answer(self, message_id: int, text: str, token_ids: Sequence[int]) -> None:
        """Add verified text and its token ids to an answer in progress; cheap at any length."""
        with self._writing():
            row = self._connection.execute(
                "INSERT INTO answer_piece(message_id, text, token_ids)"
                " SELECT id, ?, ? FROM message WHERE id = ? AND state = ?",
                (clean_text(text), pack_ids(token_ids), message_id, AnswerState.INTERRUPTED),
            )
            if row.rowcount != 1:
                raise LookupError(f"no answer in progress with id {message_id}")

    def finish_answer(
        self,
        message_id: int,
        *,
        text: str,
        token_ids: tuple[int, ...] | None,
        state: AnswerState,
        stats: AnswerStats | None,
        signature: str,
    ) -> None:
        """Replace what was appended by the final text and ids, and note how the answer ended."""
        text = clean_text(text)
        blob = None if token_ids is None else pack_ids(token_ids)
        with self._writing():
            self._update(
                "UPDATE message SET text = ?, token_ids = ?, state = ?, stats = ?, signature = ?"
                " WHERE id = ? AND role = ?",
                (text, blob, state, pack_stats(stats), signature, message_id, Role.ASSISTANT),
            )
            self._connection.execute("DELETE FROM answer_piece WHERE message_id = ?", (message_id,))
            self._connection.execute(
                "UPDATE conversation SET updated_at = ?"
                " WHERE id = (SELECT conversation_id FROM message WHERE id = ?)",
                (time.time(), message_id),
            )
            self._index.put(message_id, text)

    def drop_answer(self, message_id: int) -> None:
        """Take an answer off the active branch so that another can be written in its place.

        The row stays as an inactive branch, together with anything that followed it.
        """
        with self._writing():
            self._update(
                "UPDATE conversation SET active_leaf ="
                " (SELECT parent_id FROM message WHERE id = :answer)"
                " WHERE id = (SELECT conversation_id FROM message"
                " WHERE id = :answer AND role = :role)",
                {"answer": message_id, "role": Role.ASSISTANT},
            )

    # -- inside ----------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with translated(self.path), transaction(self._connection):
            yield

    def _update(self, statement: str, arguments: tuple[object, ...] | dict[str, object]) -> None:
        if self._connection.execute(statement, arguments).rowcount != 1:
            raise LookupError(f"no such row for {arguments}")

    def _add(self, conversation_id: int, role: Role, text: str, state: AnswerState) -> int:
        now = time.time()
        row = self._connection.execute(
            "INSERT INTO message(conversation_id, parent_id, role, text, state, created_at)"
            " SELECT id, active_leaf, ?, ?, ?, ? FROM conversation WHERE id = ?",
            (role, text, state, now, conversation_id),
        )
        if row.rowcount != 1:
            raise LookupError(f"no conversation with id {conversation_id}")
        message_id = _row_id(row)
        self._update(
            "UPDATE conversation SET active_leaf = ?, updated_at = ? WHERE id = ?",
            (message_id, now, conversation_id),
        )
        return message_id

    def _pieces(self, message_id: int) -> tuple[str, bytes]:
        rows = self._connection.execute(
            "SELECT text, token_ids FROM answer_piece WHERE message_id = ? ORDER BY id",
            (message_id,),
        ).fetchall()
        return "".join(row[0] for row in rows), b"".join(row[1] for row in rows)

    def _settle_interrupted(self) -> None:
        """Merge what answers had received when the last process died; they stay INTERRUPTED."""
        unfinished = self._connection.execute(
            "SELECT id, text, token_ids FROM message"
            " WHERE id IN (SELECT DISTINCT message_id FROM answer_piece)"
        ).fetchall()
        for message_id, text, blob in unfinished:
            more_text, more_ids = self._pieces(message_id)
            # Unindexed, so that the search index takes the whole text in when it opens next.
            self._connection.execute(
                "UPDATE message SET text = ?, token_ids = ?, indexed = 0 WHERE id = ?",
                (text + more_text, None if blob is None else blob + more_ids, message_id),
            )
        self._connection.execute("DELETE FROM answer_piece")

    def _purge_deleted(self) -> None:
        doomed = self._connection.execute(
            "SELECT id FROM conversation WHERE deleted_at IS NOT NULL"
        ).fetchall()
        for (conversation_id,) in doomed:
            self._index.remove_conversation(conversation_id)
            self._connection.execute("DELETE FROM conversation WHERE id = ?", (conversation_id,))


def _row_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None  # noqa: S101 - follows an INSERT
    return cursor.lastrowid


def _message(row: tuple[Any, ...], more_text: str, more_ids: bytes) -> StoredMessage:
    """A row of `_BRANCH`; ValueError where damage left words that mean nothing."""
    message_id, role, text, blob, state, stats, seed, model, temperature, signature = row
    return StoredMessage(
        id=message_id,
        role=Role(role),
        text=text + more_text,
        token_ids=None if blob is None else unpack_ids(blob + more_ids),
        state=AnswerState(state),
        stats=unpack_stats(stats),
        seed=unpack_seed(seed),
        model=model,
        temperature=temperature,
        signature=signature,
    )
