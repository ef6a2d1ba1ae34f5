"""Finding words in titles and messages, newest first. Words as people type them, never a syntax."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from app.history import index
from app.history.columns import clean_text
from app.history.conversations import CONVERSATION_COLUMNS, conversation_of
from app.history.records import Hit
from app.history.search_text import fold, ranges, snippet, spoken, words_of

_Row = tuple[int, int, str]
# For LIKE. The long s and the Kelvin sign fold to letters of ASCII as well.
_PATTERN = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_", "s": "_", "k": "_"})
_MESSAGE = "SELECT m.id, m.conversation_id, m.text FROM message m"


def search(
    connection: sqlite3.Connection,
    query: str,
    limit: int,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    use_index: bool = True,
) -> list[Hit]:
    """Conversations with all words in the title, then messages with all words in the text.

    What is deleted is not found, nor is what a model only thought. With an index that turns out
    to be broken (`index.broken`) sqlite3.DatabaseError goes up.
    """
    words = words_of(clean_text(query))
    connection.execute("BEGIN")  # one moment for all: a message on its way into the index is seen
    try:
        return _find(connection, words, limit, cancelled, use_index) if words else []
    finally:
        connection.execute("ROLLBACK")


def _find(
    connection: sqlite3.Connection,
    words: list[str],
    limit: int,
    cancelled: Callable[[], bool],
    use_index: bool,
) -> list[Hit]:
    rows = connection.execute(
        f"SELECT {CONVERSATION_COLUMNS} FROM conversation"  # noqa: S608 - fixed parts
        " WHERE deleted_at IS NULL ORDER BY updated_at DESC, id DESC"
    )
    conversations = {row[0]: row for row in rows}
    hits = [
        Hit(conversation_of(row), None, row[1], ranges(row[1], words))
        for row in conversations.values()
        if _holds(row[1], words)
    ]
    for message_id, conversation_id, text in _candidates(connection, words, use_index):
        if len(hits) >= limit or cancelled():
            break
        said = spoken(text)
        if conversation_id in conversations and _holds(said, words):
            conversation = conversation_of(conversations[conversation_id])
            hits.append(Hit(conversation, message_id, *snippet(said, words)))
    return hits[:limit]


def _holds(text: str, words: Iterable[str]) -> bool:
    folded = fold(text)
    return all(word in folded for word in words)


def _candidates(
    connection: sqlite3.Connection, words: list[str], use_index: bool
) -> Iterator[_Row]:
    """Messages that may hold the words, newest first; all of them where no index helps."""
    wanted = None
    if use_index and index.usable(connection):
        wanted = index.expression(connection, words)
    if wanted is None:
        return _rows(connection, "WHERE m.deleted_by IS NULL ORDER BY m.id DESC")
    likely, patterns = _likely(words)
    indexed = _rows(
        connection,
        "JOIN message_group ON message_group.rowid = m.id WHERE message_group MATCH ?"
        f" AND m.deleted_by IS NULL {likely} ORDER BY message_group.rowid DESC",
        (wanted, *patterns),
    )
    waiting = _rows(
        connection,
        "JOIN to_index q ON q.message_id = m.id WHERE m.deleted_by IS NULL"
        " ORDER BY q.message_id DESC",
    )
    both = heapq.merge(indexed, waiting, key=lambda row: -row[0])
    return (next(same) for _, same in groupby(both, key=lambda row: row[0]))


def _rows(
    connection: sqlite3.Connection, condition: str, arguments: tuple[object, ...] = ()
) -> Iterator[Any]:
    return connection.execute(f"{_MESSAGE} {condition}", arguments)


def _likely(words: list[str]) -> tuple[str, list[str]]:
    """A condition that spares looking into most false candidates: SQLite folds ASCII alone."""
    patterns = [f"%{word.translate(_PATTERN)}%" for word in words if word.isascii()]
    return " AND m.text LIKE ? ESCAPE '\\'" * len(patterns), patterns
