"""The tables, as numbered migrations: entry i takes a file from version i to i + 1.

Entries are only ever added. A step is a statement, or a function where SQL alone does not do.

Messages form a tree: `parent_id` points towards the first message and `conversation.active_leaf`
names the end of the branch on show. A parent is always older than its child, so ids sort a branch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from app.history.columns import pack_sampling, unpack_seed
from engine.request import Role, SamplingParams

Step = str | Callable[[sqlite3.Connection], None]
Migration = Sequence[Step]

_V1: Migration = (
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


def _sampling_from_columns(connection: sqlite3.Connection) -> None:
    """Version 1 knew a seed and a temperature; from 2 on all parameters stand in one column."""
    made_with = connection.execute(
        "SELECT id, seed, temperature FROM message WHERE role = ?", (Role.ASSISTANT,)
    ).fetchall()
    for message_id, seed, temperature in made_with:
        try:
            sampling = SamplingParams(temperature=temperature, seed=unpack_seed(seed))
        except (TypeError, ValueError):  # no temperature: the row is damaged
            sampling = SamplingParams()
        connection.execute(
            "UPDATE message SET sampling = ? WHERE id = ?", (pack_sampling(sampling), message_id)
        )


_V2: Migration = (
    """
    CREATE TABLE folder (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL
    )
    """,
    "ALTER TABLE conversation ADD COLUMN folder_id INTEGER REFERENCES folder(id)",
    "ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE conversation ADD COLUMN setup TEXT",
    # Takes the place of `seed` and `temperature`, which stay behind unused: SQLite can drop
    # columns only from 3.35 on.
    "ALTER TABLE message ADD COLUMN sampling TEXT",
    "ALTER TABLE message ADD COLUMN marks BLOB",
    # The id of the message whose deletion took this one along, its own for that message itself.
    "ALTER TABLE message ADD COLUMN deleted_by INTEGER",
    "ALTER TABLE answer_piece ADD COLUMN marks BLOB",
    _sampling_from_columns,
    # The shape of a conversation can be read without turning the pages of its texts.
    "DROP INDEX message_by_conversation",
    "CREATE INDEX message_tree ON message(conversation_id, deleted_by, parent_id)",
    # Which messages the search index has not taken in yet. (`message.indexed` stays behind unused.)
    """
    CREATE TABLE to_index (
        message_id INTEGER PRIMARY KEY REFERENCES message(id) ON DELETE CASCADE,
        never INTEGER NOT NULL DEFAULT 0
    )
    """,
    "INSERT INTO to_index SELECT id, 0 FROM message WHERE text <> ''",
    "DROP INDEX message_to_index",
    "CREATE INDEX message_deleted ON message(deleted_by) WHERE deleted_by IS NOT NULL",
)

_V3: Migration = (
    # The rounds an answer was written in, see `app.history.rounds`; one row for each time that
    # somebody had it begun or continued. Deleted with the message.
    """
    CREATE TABLE answer_rounds (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message_id INTEGER NOT NULL REFERENCES message(id) ON DELETE CASCADE,
        packed BLOB NOT NULL
    )
    """,
    "CREATE INDEX answer_rounds_by_message ON answer_rounds(message_id)",
)

_V4: Migration = (
    # When a message was deleted whose deletion took others along; see `app.history.trash`.
    "ALTER TABLE message ADD COLUMN deleted_at REAL",
)

_V5: Migration = (
    # 1 for an answer that was drawn unlike the conversation's setup says, to be another one.
    "ALTER TABLE message ADD COLUMN varied INTEGER",
)

_V6: Migration = (
    # How fast an answer was beside the same model without its draft, as `app.performance.verdict`
    # packs it.
    "ALTER TABLE message ADD COLUMN verdict TEXT",
)

_V7: Migration = (
    # Tool calls, as `app.history.columns` packs them: those that an answer asks for, or the one
    # that a tool's message answers.
    "ALTER TABLE message ADD COLUMN calls TEXT",
)

MIGRATIONS: tuple[Migration, ...] = (_V1, _V2, _V3, _V4, _V5, _V6, _V7)

PROBES = (
    """
    SELECT id, title, created_at, updated_at, deleted_at, active_leaf, folder_id, pinned, setup
    FROM conversation LIMIT 0
    """,
    """
    SELECT id, conversation_id, parent_id, role, text, token_ids, state, stats, model, sampling,
        signature, marks, created_at, deleted_by, deleted_at, varied, verdict, calls FROM message
    LIMIT 0
    """,
    "SELECT id, message_id, text, token_ids, marks FROM answer_piece LIMIT 0",
    "SELECT id, name FROM folder LIMIT 0",
    "SELECT message_id, never FROM to_index LIMIT 0",
    "SELECT id, message_id, packed FROM answer_rounds LIMIT 0",
)
"""Queries that must work on a file of the current version; a damaged schema fails them."""
