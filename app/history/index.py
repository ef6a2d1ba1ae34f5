"""An index of three-letter groups, so that a search reads only messages that may hold its words.

Per message it keeps which groups occur, not where: a quarter of the room, and who finds a candidate
looks into its text anyway. It is derived data, written behind the store's back in small pieces:
`message.indexed` says how far it has come, and a search reads what is not in it yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from enum import IntEnum

from app.history.words import fold, spoken

_GROUP = 3
_PAD = "  "  # so that also the last letters of a text begin a group
_GROUPS_PER_WORD = 12
_COMMON = 20_000
"""A short word whose groups have this many entries is found sooner by reading."""
_LONGEST = 250_000
"""Longer texts are not indexed: one of them would keep the file locked for too long."""


class Indexed(IntEnum):
    """What `message.indexed` says."""

    NOT_YET = 0
    DONE = 1
    NEVER = 2


def create(connection: sqlite3.Connection) -> bool:
    """Make sure that there is an index; False where this SQLite cannot, or it is broken.

    A broken one is made anew where possible. Runs inside the caller's transaction.
    """
    run = connection.execute
    try:
        run(
            "CREATE VIRTUAL TABLE IF NOT EXISTS message_group"
            " USING fts5(text, tokenize='trigram', detail=none, content='', columnsize=0)"
        )
        run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.groups USING fts5vocab(main, message_group, row)")
        run("SELECT rowid FROM message_group WHERE message_group MATCH '\"abc\"' LIMIT 1").fetchall()
    except sqlite3.DatabaseError as error:
        # Built without FTS5 or the tokenizer; or so damaged that it can neither be opened nor
        # dropped. Trouble with the drive or the file as a whole goes up.
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR and not broken(error):
            raise
        return False
    return True


def broken(error: sqlite3.DatabaseError) -> bool:
    """Whether only the search index is damaged, not the history itself."""
    return getattr(
        error, "sqlite_errorcode", None
    ) == sqlite3.SQLITE_CORRUPT_VTAB or "vtable constructor failed" in str(error)
