"""The trash: deleted conversations and messages, kept for 30 days."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from app.history import index
from app.history.branches import BELOW, Branches
from app.history.database import translated
from app.history.file import HistoryFile
from app.history.records import UndoToken

KEPT_S = 30 * 24 * 3600.0
DOOMED = 0.0
"""`deleted_at` of what the next purge erases, such as an import that did not end."""
_PURGED_AT_ONCE = 50
_PURGE_S = 0.5

_DOOMED = """
SELECT id, text FROM message WHERE id IN (
    SELECT m.id FROM message m INDEXED BY message_deleted JOIN message top ON top.id = m.deleted_by
    WHERE m.deleted_by IS NOT NULL AND ifnull(top.deleted_at, 0) <= :before
    UNION ALL
    SELECT id FROM message INDEXED BY message_tree
    WHERE conversation_id IN (SELECT id FROM conversation WHERE deleted_at <= :before)
) ORDER BY id DESC LIMIT :most
"""

_ITEMS = """
SELECT id, NULL, title, deleted_at,
    (SELECT count(*) FROM message m WHERE m.conversation_id = c.id AND m.deleted_by IS NULL)
FROM conversation c WHERE deleted_at > 0
UNION ALL
SELECT m.conversation_id, m.id, substr(m.text, 1, 200), m.deleted_at,
    (SELECT count(*) FROM message b WHERE b.deleted_by = m.id)
FROM message m INDEXED BY message_deleted JOIN conversation c ON c.id = m.conversation_id
WHERE m.deleted_by IS NOT NULL AND m.deleted_by = m.id AND m.deleted_at > 0 AND c.deleted_at IS NULL
ORDER BY 4 DESC
"""


@dataclass(frozen=True, slots=True)
class TrashItem:
    """A deletion that can be undone.

    Attributes:
        token: brings it back.
        title: of the conversation, or the beginning of the message.
        deleted_at: Unix time.
        messages: how many it hides.
    """

    token: UndoToken
    title: str
    deleted_at: float
    messages: int


class Trash:
    """Deletes, brings back, and purges what has lain here for `KEPT_S` seconds."""

    def __init__(self, file: HistoryFile, branches: Branches) -> None:
        self._file, self._branches = file, branches

    def items(self) -> list[TrashItem]:
        """Return what lies here, the latest deletion first."""
        with translated(self._file.path):
            rows = self._file.rows(_ITEMS)
        return [
            TrashItem(UndoToken(conversation, message, message), title, at, count)
            for conversation, message, title, at, count in rows
        ]

    def conversation_ids(self) -> list[int]:
        """Return the ids of the conversations that lie in the trash."""
        with translated(self._file.path):
            rows = self._file.rows("SELECT id FROM conversation WHERE deleted_at > ?", (DOOMED,))
        return [int(row[0]) for row in rows]

    def delete_conversation(self, conversation_id: int) -> UndoToken:
        """Put a conversation into the trash."""
        with self._file.writing():
            self._file.change(
                "UPDATE conversation SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL",
                (time.time(), conversation_id),
            )
        return UndoToken(conversation_id)

    def delete_message(self, message_id: int) -> UndoToken:
        """Put a message and everything below it into the trash.

        Where the branch on show went through it, the version before it, else the one after it
        takes its place; without another version the branch ends at its parent.
        """
        with self._file.writing():
            conversation_id, parent_id = self._branches.require(message_id)
            leaf = self._branches.leaf(conversation_id)
            siblings = self._branches.children(conversation_id, parent_id)
            self._file.connection.execute(
                f"{BELOW} UPDATE message SET deleted_by = ?"  # noqa: S608 - fixed parts
                " WHERE id IN below AND deleted_by IS NULL",
                (message_id, message_id),
            )
            now = time.time()
            self._file.change("UPDATE message SET deleted_at = ? WHERE id = ?", (now, message_id))
            # Whatever the clock says, nothing is purged later than what it hangs on.
            self._file.connection.execute(
                f"{BELOW} UPDATE message SET deleted_at = min(deleted_at, ?)"  # noqa: S608
                " WHERE id IN below AND deleted_at IS NOT NULL",
                (message_id, now),
            )
            if leaf is None or self._deleted_by(leaf) != message_id:
                leaf = None
            else:
                place = siblings.index(message_id)
                others = siblings[:place][-1:] or siblings[place + 1 :][:1]
                follower = self._branches.newest_below(others[0]) if others else parent_id
                self._branches.end_at(conversation_id, follower)
        return UndoToken(conversation_id, message_id, leaf)

    def undelete(self, token: UndoToken) -> None:
        """Bring back what a deletion hid, complete and in its old place, and show it."""
        with self._file.writing():
            if token.message_id is None:
                self._file.change(
                    "UPDATE conversation SET deleted_at = NULL WHERE id = ?",
                    (token.conversation_id,),
                )
            else:
                self._undelete_message(token, token.message_id)

    def _undelete_message(self, token: UndoToken, message_id: int) -> None:
        # Where something above was deleted later, the message now goes with that.
        restored = self._file.connection.execute(
            "UPDATE message SET deleted_at = NULL, deleted_by = (SELECT above.deleted_by"
            " FROM message above JOIN message top ON above.id = top.parent_id WHERE top.id = :top)"
            " WHERE deleted_by = :top",
            {"top": message_id},
        )
        if not restored.rowcount:
            raise LookupError(f"message {message_id} was not deleted, or is gone")
        if token.leaf is not None and self._deleted_by(message_id) is None:
            # The leaf of then may still be hidden by another deletion.
            visible = token.leaf if self._deleted_by(token.leaf) is None else message_id
            self._branches.end_at(token.conversation_id, self._branches.newest_below(visible))

    def empty(self) -> None:
        """Hide all that lies here from the list; the next purge erases it."""
        with self._file.writing():
            run = self._file.connection.execute
            run("UPDATE conversation SET deleted_at = ? WHERE deleted_at IS NOT NULL", (DOOMED,))
            run("UPDATE message SET deleted_at = ? WHERE deleted_at IS NOT NULL", (DOOMED,))

    def purge(self) -> None:
        """Erase what has lain here for `KEPT_S` seconds, and what `empty` hid.

        It stops after half a second and goes on at the next start, so that nobody waits.
        """
        until, before = time.monotonic() + _PURGE_S, time.time() - KEPT_S
        while time.monotonic() < until:
            with self._file.writing():
                doomed = self._file.rows(_DOOMED, {"before": before, "most": _PURGED_AT_ONCE})
                if not doomed:
                    self._file.connection.execute(
                        "DELETE FROM conversation WHERE deleted_at <= ?", (before,)
                    )
                    return
                self._delete_rows(doomed)

    def _delete_rows(self, doomed: list[tuple[int, str]]) -> None:
        run = self._file.connection.execute
        run("SAVEPOINT index_alone")
        try:
            for message_id, text in doomed:
                index.forget(self._file.connection, message_id, text)
        except sqlite3.DatabaseError as error:
            if not index.missing(error):
                raise
            run("ROLLBACK TO index_alone")
        run("RELEASE index_alone")
        for message_id, _ in doomed:  # children, which have the higher ids, come first
            run("DELETE FROM message WHERE id = ?", (message_id,))

    def _deleted_by(self, message_id: int) -> int | None:
        found: int | None = self._file.connection.execute(
            "SELECT deleted_by FROM message WHERE id = ?", (message_id,)
        ).fetchone()[0]
        return found
