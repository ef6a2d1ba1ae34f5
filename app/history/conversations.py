"""The conversations themselves: their list, titles, folders, pins and setups."""

from __future__ import annotations

import time
from typing import Any

from app.history.columns import clean_text, pack_setup, unpack_setup
from app.history.database import translated
from app.history.file import HistoryFile
from app.history.records import ChatSetup, Conversation, Folder, UndoToken

CONVERSATION_COLUMNS = "id, title, updated_at, folder_id, pinned, setup"


class Conversations(HistoryFile):
    """The part of the store that knows nothing of messages."""

    def conversations(self) -> list[Conversation]:
        """All conversations, newest first."""
        with translated(self.path):
            rows = self._rows(
                f"SELECT {CONVERSATION_COLUMNS} FROM conversation"  # noqa: S608 - fixed parts
                " WHERE deleted_at IS NULL ORDER BY updated_at DESC, id DESC"
            )
        return [conversation_of(row) for row in rows]

    def create_conversation(self, title: str = "") -> Conversation:
        """Start an empty conversation."""
        now, title = time.time(), clean_text(title)
        with self._writing():
            conversation_id = self._insert(
                "INSERT INTO conversation(title, created_at, updated_at) VALUES (?, ?, ?)",
                (title, now, now),
            )
        return Conversation(conversation_id, title, now)

    def rename(self, conversation_id: int, title: str) -> None:
        """Give a conversation another title; its place in the list stays."""
        with self._writing():
            self._change(
                "UPDATE conversation SET title = ? WHERE id = ?",
                (clean_text(title), conversation_id),
            )

    def set_setup(self, conversation_id: int, setup: ChatSetup) -> None:
        """Keep what a conversation sends along from now on."""
        with self._writing():
            self._change(
                "UPDATE conversation SET setup = ? WHERE id = ?",
                (clean_text(pack_setup(setup)), conversation_id),
            )

    def pin(self, conversation_id: int, pinned: bool) -> None:
        """Keep a conversation at the top of the list, or let it go."""
        with self._writing():
            self._change(
                "UPDATE conversation SET pinned = ? WHERE id = ?", (int(pinned), conversation_id)
            )

    def delete(self, conversation_id: int) -> UndoToken:
        """Hide a conversation. It is purged at `close`; until then the token brings it back."""
        with self._writing():
            self._change(
                "UPDATE conversation SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL",
                (time.time(), conversation_id),
            )
        return UndoToken(conversation_id)

    # -- folders ---------------------------------------------------------------------------

    def folders(self) -> list[Folder]:
        """All folders, by name."""
        with translated(self.path):
            rows = self._rows("SELECT id, name FROM folder")
        return sorted((Folder(*row) for row in rows), key=lambda f: (f.name.casefold(), f.id))

    def create_folder(self, name: str) -> Folder:
        """Add a folder; several may have the same name."""
        name = clean_text(name)
        with self._writing():
            return Folder(self._insert("INSERT INTO folder(name) VALUES (?)", (name,)), name)

    def rename_folder(self, folder_id: int, name: str) -> None:
        """Give a folder another name."""
        with self._writing():
            self._change("UPDATE folder SET name = ? WHERE id = ?", (clean_text(name), folder_id))

    def delete_folder(self, folder_id: int) -> None:
        """Remove a folder. Its conversations stay, outside of any."""
        with self._writing():
            self._connection.execute(
                "UPDATE conversation SET folder_id = NULL WHERE folder_id = ?", (folder_id,)
            )
            self._change("DELETE FROM folder WHERE id = ?", (folder_id,))

    def move(self, conversation_id: int, folder_id: int | None) -> None:
        """Put a conversation into a folder; None takes it out."""
        with self._writing():
            if folder_id is not None:
                self._change("UPDATE folder SET name = name WHERE id = ?", (folder_id,))
            self._change(
                "UPDATE conversation SET folder_id = ? WHERE id = ?", (folder_id, conversation_id)
            )


def conversation_of(row: tuple[Any, ...]) -> Conversation:
    """A row of `CONVERSATION_COLUMNS`."""
    number, title, updated_at, folder_id, pinned, setup = row
    return Conversation(number, title, updated_at, folder_id, bool(pinned), unpack_setup(setup))
