"""The conversations themselves: their list, titles, pins and setups."""

from __future__ import annotations

import time
from typing import Any

from app.history.columns import clean_text, pack_setup, unpack_setup
from app.history.database import translated
from app.history.file import HistoryFile
from app.history.records import ChatSetup, Conversation

CONVERSATION_COLUMNS = "id, title, updated_at, folder_id, pinned, setup"


class Conversations:
    """The conversations of a file, without their messages."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def all(self) -> list[Conversation]:
        """All conversations, newest first."""
        with translated(self._file.path):
            rows = self._file.rows(
                f"SELECT {CONVERSATION_COLUMNS} FROM conversation"  # noqa: S608 - fixed parts
                " WHERE deleted_at IS NULL ORDER BY updated_at DESC, id DESC"
            )
        return [conversation_of(row) for row in rows]

    def create(self, title: str = "") -> Conversation:
        """Start an empty conversation."""
        now, title = time.time(), clean_text(title)
        with self._file.writing():
            conversation_id = self._file.insert(
                "INSERT INTO conversation(title, created_at, updated_at) VALUES (?, ?, ?)",
                (title, now, now),
            )
        return Conversation(conversation_id, title, now)

    def rename(self, conversation_id: int, title: str) -> None:
        """Give a conversation another title; its place in the list stays."""
        with self._file.writing():
            self._file.change(
                "UPDATE conversation SET title = ? WHERE id = ?",
                (clean_text(title), conversation_id),
            )

    def set_setup(self, conversation_id: int, setup: ChatSetup) -> None:
        """Keep what a conversation sends along from now on."""
        with self._file.writing():
            self._file.change(
                "UPDATE conversation SET setup = ? WHERE id = ?",
                (clean_text(pack_setup(setup)), conversation_id),
            )

    def pin(self, conversation_id: int, pinned: bool) -> None:
        """Keep a conversation at the top of the list, or let it go."""
        with self._file.writing():
            self._file.change(
                "UPDATE conversation SET pinned = ? WHERE id = ?", (int(pinned), conversation_id)
            )


def conversation_of(row: tuple[Any, ...]) -> Conversation:
    """A row of `CONVERSATION_COLUMNS`."""
    number, title, updated_at, folder_id, pinned, setup = row
    return Conversation(number, title, updated_at, folder_id, bool(pinned), unpack_setup(setup))
