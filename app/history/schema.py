"""The tables, as numbered migrations: entry i takes a file from version i to i + 1.

Entries are only ever added. Messages form a tree: `parent_id` points towards the first message and
`conversation.active_leaf` names the end of the branch on show. A parent is always older than its
child, so ids sort a branch.
"""

from __future__ import annotations

_V1 = (
    """
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        deleted_at REAL,
        active_leaf INTEGER
    )
    """,
    """
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
        parent_id INTEGER REFERENCES message(id) CHECK (parent_id < id),
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        token_ids BLOB,
        state TEXT NOT NULL,
        stats TEXT,
        model TEXT NOT NULL DEFAULT '',
        seed INTEGER NOT NULL DEFAULT 0,
        temperature REAL NOT NULL DEFAULT 0,
        signature TEXT NOT NULL DEFAULT '',
        created_at REAL NOT NULL,
        indexed INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX message_by_conversation ON message(conversation_id)",
    "CREATE INDEX message_by_parent ON message(parent_id)",
    "CREATE INDEX message_to_index ON message(indexed) WHERE indexed = 0",
    # What an unfinished answer has received so far. Adding a row costs the same at any length,
    # whereas growing message.text would rewrite the whole answer each time.
    """
    CREATE TABLE answer_piece (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message_id INTEGER NOT NULL REFERENCES message(id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        token_ids BLOB NOT NULL
    )
    """,
    "CREATE INDEX answer_piece_by_message ON answer_piece(message_id)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_V1,)

PROBES = (
    "SELECT id, title, created_at, updated_at, deleted_at, active_leaf FROM conversation LIMIT 0",
    """
    SELECT id, conversation_id, parent_id, role, text, token_ids, state, stats, model, seed,
        temperature, signature, created_at, indexed FROM message LIMIT 0
    """,
    "SELECT id, message_id, text, token_ids FROM answer_piece LIMIT 0",
)
"""Queries that must work on a file of the current version; a damaged schema fails them."""
