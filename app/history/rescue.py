"""A history put together again from the rows of a damaged file that can still be read."""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

from app.history.database import damaged, transaction
from app.history.records import AnswerState
from app.history.rounds import unpack
from app.history.salvage import Value, rows
from engine.language import tr
from engine.request import Role

_ROLES = {str(role) for role in Role}
_STATES = {str(state) for state in AnswerState}

# The columns of the tables as the statements of the schema declare them, so far as they are read.
_CONVERSATION = (
    *("id", "title", "created_at", "updated_at", "deleted_at", "active_leaf"),
    *("folder_id", "pinned", "setup"),
)
_MESSAGE = (
    *("id", "conversation_id", "parent_id", "role", "text", "token_ids", "state", "stats", "model"),
    *("seed", "temperature", "signature", "created_at", "indexed", "sampling", "marks"),
    *("deleted_by", "deleted_at", "varied", "verdict", "calls"),
)

_HIGHEST_ID = 1 << 40
_Fields = dict[str, Value]


@dataclass(slots=True)
class _Found:
    """Content of the file, by id."""

    folders: dict[int, str] = field(default_factory=dict)
    conversations: dict[int, _Fields] = field(default_factory=dict)
    messages: dict[int, _Fields] = field(default_factory=dict)
    pieces: dict[int, list[Value]] = field(default_factory=dict)
    rounds: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    broken: int = 0

    def count_broken(self) -> None:
        self.broken += 1

    def take(self, number: int, values: list[Value]) -> None:
        """Put a row where it belongs, which its columns tell."""
        if not 0 < number < _HIGHEST_ID:
            return
        if 14 <= len(values) <= len(_MESSAGE) and values[3] in _ROLES and values[6] in _STATES:
            told = dict(zip(_MESSAGE, values, strict=False))
            if isinstance(told["text"], str) and isinstance(told["conversation_id"], int):
                self.messages[number] = told
        elif 6 <= len(values) <= len(_CONVERSATION) and isinstance(values[1], str):
            if all(isinstance(value, (int, float)) for value in values[2:4]):
                self.conversations[number] = dict(zip(_CONVERSATION, values, strict=False))
        elif 4 <= len(values) <= 5 and isinstance(values[1], int) and isinstance(values[2], str):
            self.pieces[number] = values
        elif len(values) == 3 and isinstance(values[1], int) and isinstance(values[2], bytes):
            if values[0] is None and unpack(values[2]) is not None:
                self.rounds[number] = (values[1], values[2])
        elif len(values) == 2 and values[0] is None and isinstance(values[1], str):
            self.folders[number] = values[1]


def rescue(source: Path, target: sqlite3.Connection) -> int:
    """Write what can be read of `source` into a new history; how much is known to be missing.

    Raises:
        UserFixable: there is nothing left to read.
    """
    found = _Found()
    for number, values in rows(source, found.count_broken):
        found.take(number, values)
    if not (found.conversations or found.messages):
        raise damaged(source, "no conversation in it can be read")
    with transaction(target):
        for number, name in found.folders.items():
            target.execute("INSERT INTO folder VALUES (?, ?)", (number, name))
        missing = _add_messages(target, found)
        _add_pieces(target, found)
        _add_rounds(target, found)
    return found.broken + len(missing)


def _add_messages(connection: sqlite3.Connection, found: _Found) -> set[int]:
    """Write conversations and messages; the ids of messages that others speak of."""
    deleted = {n for n, told in found.conversations.items() if told["deleted_at"] is not None}
    branches: dict[int, list[int]] = {number: [] for number in found.conversations}
    for number in sorted(found.messages):
        told = found.messages[number]
        if told["conversation_id"] not in deleted and told.get("deleted_by") is None:
            branches.setdefault(_whole(told["conversation_id"]), []).append(number)
    missing: set[int] = set()
    for conversation_id, numbers in branches.items():
        if conversation_id not in deleted:
            _add_conversation(connection, found, conversation_id, numbers)
            missing |= _add_branch(connection, found, numbers)
    return missing


def _add_conversation(
    connection: sqlite3.Connection, found: _Found, number: int, messages: list[int]
) -> None:
    told = found.conversations.get(number, {})
    last = found.messages[messages[-1]]["created_at"] if messages else 0.0
    leaf, folder_id = told.get("active_leaf"), told.get("folder_id")
    connection.execute(
        "INSERT INTO conversation(id, title, created_at, updated_at, active_leaf, folder_id,"
        " pinned, setup) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            told.get("title", tr("Recovered conversation")),
            _time(told.get("created_at", last)),
            _time(told.get("updated_at", last)),
            leaf if leaf in messages else max(messages, default=None),
            folder_id if folder_id in found.folders else None,
            int(told.get("pinned") == 1),
            told.get("setup"),
        ),
    )


def _add_branch(connection: sqlite3.Connection, found: _Found, numbers: list[int]) -> set[int]:
    missing: set[int] = set()
    for place, number in enumerate(numbers):
        told = found.messages[number]
        parent = told["parent_id"]
        if parent is not None:
            earlier = bisect_left(numbers, _whole(parent), 0, place)
            if earlier == place or numbers[earlier] != parent:
                missing.add(_whole(parent))  # what follows it moves up to what came before it
                parent = numbers[earlier - 1] if earlier else None
        columns = [name for name in _MESSAGE if name not in ("seed", "temperature", "indexed")]
        values = told | {"id": number, "parent_id": parent, "deleted_by": None, "deleted_at": None}
        values["created_at"] = _time(told["created_at"])
        for name in ("model", "signature"):
            values[name] = told[name] if isinstance(told[name], str) else ""
        connection.execute(
            f"INSERT INTO message({', '.join(columns)})"  # noqa: S608 - fixed names
            f" VALUES ({', '.join('?' * len(columns))})",
            [values.get(name) for name in columns],
        )
        connection.execute("INSERT INTO to_index VALUES (?, 0)", (number,))
    return missing


def _add_pieces(connection: sqlite3.Connection, found: _Found) -> None:
    for number in sorted(found.pieces):
        _, message_id, text, ids, *marks = found.pieces[number]
        connection.execute(
            "INSERT INTO answer_piece(message_id, text, token_ids, marks)"
            " SELECT id, ?, ?, ? FROM message WHERE id = ?",
            (text, ids if isinstance(ids, bytes) else b"", *(marks or [None]), message_id),
        )


def _add_rounds(connection: sqlite3.Connection, found: _Found) -> None:
    for number in sorted(found.rounds):
        message_id, packed = found.rounds[number]
        connection.execute(
            "INSERT INTO answer_rounds(message_id, packed) SELECT id, ? FROM message WHERE id = ?",
            (packed, message_id),
        )


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _time(value: Value) -> float:
    sensible = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if sensible and isinstance(value, (int, float)) else 0.0
