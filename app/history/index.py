"""An index of three-letter groups, so that a search reads only messages that may hold its words.

Per message it keeps which groups occur, not where: a quarter of the room, and whoever finds a
candidate looks into its text anyway. It is derived data, written in small pieces behind the
store's back; `to_index` lists the messages that are not in it yet, which a search reads as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from app.history.database import transaction
from app.history.search_text import fold, spoken

GROUP = 3
_PAD = "  "  # so that also the last letters of a text begin a group
_GROUPS_PER_WORD = 12
_AT_ONCE = 200
_COMMON = 20_000
"""A short word whose groups have this many entries is found sooner by reading."""
_LONGEST = 250_000
"""Longer texts are never indexed, but read: one would keep the file locked for too long."""


def create(connection: sqlite3.Connection) -> bool:
    """Make sure that there is an index; False where this SQLite has none, or it cannot be mended.

    Not inside a transaction. Trouble with the drive or the file as a whole goes up.
    """
    run = connection.execute
    try:
        with transaction(connection):
            run("DROP TABLE IF EXISTS message_fts")  # of version 1
            there = run("SELECT 1 FROM sqlite_master WHERE name = 'message_group'").fetchone()
            if there is None:
                run(
                    "CREATE VIRTUAL TABLE message_group USING"
                    " fts5(text, tokenize='trigram', detail=none, content='', columnsize=0)"
                )
                run("INSERT OR IGNORE INTO to_index SELECT id, 0 FROM message WHERE text <> ''")
    except sqlite3.DatabaseError as error:
        if not missing(error):
            raise
    return usable(connection)


def usable(connection: sqlite3.Connection) -> bool:
    """Return whether a search can ask the index."""
    try:
        connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.letters USING"
            " fts5vocab(main, message_group, row)"
        )
        connection.execute("SELECT rowid FROM message_group WHERE message_group MATCH 'a'")
    except sqlite3.DatabaseError as error:
        if not missing(error):
            raise
        return False
    return True


def drop(connection: sqlite3.Connection) -> None:
    """Remove a broken index, so that it is made anew; one too broken for that is left alone."""
    try:
        with transaction(connection):
            connection.execute("DROP TABLE IF EXISTS message_group")
    except sqlite3.DatabaseError as error:
        if not broken(error):
            raise


def broken(error: sqlite3.DatabaseError) -> bool:
    """Return whether only the search index is damaged, not the history itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_CORRUPT_VTAB or "vtable constructor failed" in str(error)


def missing(error: sqlite3.DatabaseError) -> bool:
    """Return whether there is no index: broken, not made yet, or SQLite was built without it."""
    return broken(error) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def take_in(connection: sqlite3.Connection, letters: int) -> bool:
    """Index about so many letters of what is waiting; whether there is more.

    Not inside a transaction.
    """
    run = connection.execute
    with transaction(connection):
        waiting = run(
            "SELECT message_id FROM to_index WHERE NOT never ORDER BY message_id DESC LIMIT ?",
            (_AT_ONCE,),
        ).fetchall()
        done = 0
        for (message_id,) in waiting:
            (text,) = run("SELECT text FROM message WHERE id = ?", (message_id,)).fetchone()
            done += len(text)
            if len(text) > _LONGEST or "\0" in text:
                run("UPDATE to_index SET never = 1 WHERE message_id = ?", (message_id,))
            else:
                run(
                    "INSERT INTO message_group(rowid, text) VALUES (?, ?)",
                    (message_id, _indexed(text)),
                )
                run("DELETE FROM to_index WHERE message_id = ?", (message_id,))
            if done >= letters:
                return True
    return len(waiting) == _AT_ONCE


def forget(connection: sqlite3.Connection, message_id: int, text: str) -> None:
    """Take a message out of the index before it is purged. Inside the caller's transaction."""
    waiting = connection.execute("SELECT 1 FROM to_index WHERE message_id = ?", (message_id,))
    if waiting.fetchone() is None:
        connection.execute(
            "INSERT INTO message_group(message_group, rowid, text) VALUES ('delete', ?, ?)",
            (message_id, _indexed(text)),
        )


def _indexed(text: str) -> str:
    return fold(spoken(text)) + _PAD


def expression(connection: sqlite3.Connection, words: Sequence[str]) -> str | None:
    """Return the query for the index; None where it would be of no help. Words are folded."""
    terms: list[str] = []
    for word in words:
        if len(word) >= GROUP:
            groups = [word[at : at + GROUP] for at in range(len(word) - GROUP + 1)]
            step = -(-len(groups) // _GROUPS_PER_WORD)
            terms.extend(_quoted(group) for group in (*groups[::step], groups[-1]))
        elif begun := _groups_beginning_with(connection, word):
            terms.append(f"({' OR '.join(map(_quoted, begun))})")
    return " AND ".join(dict.fromkeys(terms)) or None


def _groups_beginning_with(connection: sqlite3.Connection, word: str) -> list[str]:
    """The groups that occur; none where they occur too often. Without any, one that is nowhere."""
    found, entries = [], 0
    rows = connection.execute(
        "SELECT term, doc FROM temp.letters WHERE term >= ? AND term < ?",
        (word, word + "\U0010ffff"),
    )
    for term, messages in rows:
        found.append(term)
        entries += messages
        if entries > _COMMON:
            return []
    return found or [(word + "\ue000" * GROUP)[:GROUP]]


def _quoted(group: str) -> str:
    return '"' + group.replace('"', '""') + '"'
