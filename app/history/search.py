"""Full text search over messages: an FTS5 trigram index where SQLite has one, else LIKE.

The index is derived data: it may be dropped and is then rebuilt. What users type never becomes
query syntax; it is split at white space, and every word has to occur (as a substring) in a title
or a message of the conversation.
"""

from __future__ import annotations

import sqlite3

_MAX_WORDS = 8
_MAX_WORD = 200
_TRIGRAM = 3


def words_of(query: str) -> list[str]:
    """The words to look for; NUL would end SQLite's strings and counts as white space."""
    return [word[:_MAX_WORD] for word in query.replace("\0", " ").split()[:_MAX_WORDS]]


class SearchIndex:
    """Keeps `message_fts` in step with `message` and phrases the conditions of a search.

    Its methods run inside the caller's transaction. A failing index switches itself off for the
    session: a search may then be slower, but an answer is never lost to it.
    """

    def __init__(self, connection: sqlite3.Connection, *, use_fts: bool = True) -> None:
        self._run = connection.execute
        self.available = use_fts and self._create()
        if self.available and not self._catch_up():
            self._run("DROP TABLE message_fts")
            self._run("UPDATE message SET indexed = 0")
            self.available = self._create() and self._catch_up()

    def _create(self) -> bool:
        try:
            self._run(
                "CREATE VIRTUAL TABLE IF NOT EXISTS message_fts"
                " USING fts5(text, tokenize='trigram')"
            )
            self._run("SELECT rowid FROM message_fts LIMIT 1").fetchall()
        except sqlite3.DatabaseError as error:
            # Built without FTS5 or the tokenizer; or so damaged that it can neither be opened nor
            # dropped. Trouble with the drive or the file as a whole goes up.
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR and not index_broken(error):
                raise
            return False
        return True

    def _catch_up(self) -> bool:
        rows = self._run("SELECT id, text FROM message WHERE indexed = 0").fetchall()
        for message_id, text in rows:
            self.put(message_id, text)
        return self.available

    def put(self, message_id: int, text: str) -> None:
        """Index a finished message anew."""
        self._guarded(
            ("DELETE FROM message_fts WHERE rowid = ?", (message_id,)),
            ("INSERT INTO message_fts(rowid, text) VALUES (?, ?)", (message_id, text)),
        )
        self._run("UPDATE message SET indexed = ? WHERE id = ?", (int(self.available), message_id))

    def remove_conversation(self, conversation_id: int) -> None:
        """Forget the words of a conversation that is about to be purged."""
        messages = "SELECT id FROM message WHERE conversation_id = ?"
        self._guarded(
            (f"DELETE FROM message_fts WHERE rowid IN ({messages})", (conversation_id,)),  # noqa: S608
        )

    def remove_deleted(self) -> None:
        """Forget the words of single messages that are about to be purged."""
        messages = "SELECT id FROM message WHERE deleted_by IS NOT NULL"
        self._guarded((f"DELETE FROM message_fts WHERE rowid IN ({messages})", ()))  # noqa: S608

    def give_up(self) -> None:
        """Search without the index from now on; the next start rebuilds it."""
        self.available = False
        self._run("UPDATE message SET indexed = 0")

    def _guarded(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        if not self.available:
            return
        self._run("SAVEPOINT search_index")
        try:
            for statement, arguments in statements:
                self._run(statement, arguments)
        except sqlite3.DatabaseError as error:
            if not index_broken(error):
                raise
            self._run("ROLLBACK TO search_index")
            self.available = False
        self._run("RELEASE search_index")

    def condition(self, word: str) -> tuple[str, tuple[str, ...]]:
        """An SQL condition on `conversation` for one word, with its parameters."""
        like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        if self.available and len(word) >= _TRIGRAM:
            messages = "m.id IN (SELECT rowid FROM message_fts WHERE message_fts MATCH ?)"
            argument = '"' + word.replace('"', '""') + '"'
        else:
            messages = "m.text LIKE ? ESCAPE '\\'"
            argument = like
        found = f"SELECT m.conversation_id FROM message m WHERE m.deleted_by IS NULL AND {messages}"  # noqa: S608
        return f"(c.title LIKE ? ESCAPE '\\' OR c.id IN ({found}))", (like, argument)


def index_broken(error: sqlite3.DatabaseError) -> bool:
    """Whether only the search index is damaged, not the history itself."""
    return getattr(
        error, "sqlite_errorcode", None
    ) == sqlite3.SQLITE_CORRUPT_VTAB or "vtable constructor failed" in str(error)
