"""Messages as a tree: which branch is on show, versions side by side.

Of the children of one message (or the first messages of a conversation) one is on show; they are
versions of each other. Ids grow from parent to child, so the newest of all messages below one is
the end of a branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from app.history.answer_pieces import AnswerPieces
from app.history.database import damaged, translated
from app.history.file import HistoryFile
from app.history.message import MESSAGE_COLUMNS, STATE, StoredMessage, messages_of
from app.history.records import AnswerState

# Read from an index alone, in the order of parents, then ids.
_TREE = "SELECT id, parent_id FROM message WHERE conversation_id = ? AND deleted_by IS NULL"

_MESSAGES = (
    f"SELECT {MESSAGE_COLUMNS} FROM message"  # noqa: S608 - fixed parts
    " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)
_UNFINISHED = str(AnswerState.INTERRUPTED)

# A message and everything below it, in whatever state.
BELOW = """
WITH RECURSIVE below(id) AS (
    VALUES (?) UNION SELECT m.id FROM message m JOIN below b ON m.parent_id = b.id
)
"""


class Branches:
    """The branch on show of each conversation, and the ways to another."""

    def __init__(self, file: HistoryFile, pieces: AnswerPieces) -> None:
        self._file, self._pieces = file, pieces
        self._went_back: set[int] = set()
        """Conversations whose branch may have been cut back."""

    def messages(self, conversation_id: int) -> list[StoredMessage]:
        """The active branch, oldest first; an answer in progress with all it has so far."""
        with translated(self._file.path):
            parents = dict(self._file.rows(_TREE, (conversation_id,)))
            branch = _walk(parents, self.leaf(conversation_id))
            return self._read(branch, _places(parents))

    def set_leaf(self, conversation_id: int, message_id: int | None) -> None:
        """End the branch on show at this message, so that the next one follows it; None: at the
        very beginning. What followed before stays as another version."""
        with self._file.writing():
            if message_id is not None:
                self.require(message_id, conversation_id)
            self.end_at(conversation_id, message_id)
        self._went_back.add(conversation_id)

    def show_version(self, message_id: int, step: int) -> None:
        """Show the sibling `step` places on, with the newest branch below it."""
        with self._file.writing():
            conversation_id, parent_id = self.require(message_id)
            siblings = self.children(conversation_id, parent_id)
            place = siblings.index(message_id) + step
            if not 0 <= place < len(siblings):
                raise LookupError(f"message {message_id} has no version {step:+d} from it")
            self.end_at(conversation_id, self.newest_below(siblings[place]))

    def show_message(self, message_id: int) -> None:
        """Show the branch of a message, with the newest of what follows it."""
        with self._file.writing():
            conversation_id, _ = self.require(message_id)
            self.end_at(conversation_id, self.newest_below(message_id))

    def settle(self, *, everywhere: bool = False) -> None:
        """Keep all in sight where going back was not followed by going on.

        Args:
            everywhere: look at all conversations, not only at those that went back since the file
                was opened. In a large, cold file that takes seconds.
        """
        if not everywhere and not self._went_back:
            return
        some = "" if everywhere else f"c.id IN ({', '.join(map(str, self._went_back))}) AND"
        cut = self._file.rows(
            f"SELECT c.id, c.active_leaf FROM conversation c WHERE {some} EXISTS"  # noqa: S608
            " (SELECT 1 FROM message m WHERE m.conversation_id = c.id AND m.deleted_by IS NULL"
            " AND m.parent_id IS c.active_leaf)"
        )
        for conversation_id, leaf in cut:
            roots = self.children(conversation_id, None) if leaf is None else [leaf]
            self.end_at(conversation_id, self.newest_below(roots[-1]))

    def require(self, message_id: int, conversation_id: int | None = None) -> tuple[int, int]:
        """Conversation and parent of a message that is not deleted; LookupError without one."""
        row = self._file.connection.execute(
            "SELECT conversation_id, parent_id FROM message"
            " WHERE id = ? AND deleted_by IS NULL AND conversation_id = ifnull(?, conversation_id)",
            (message_id, conversation_id),
        ).fetchone()
        if row is None:
            raise LookupError(f"no message with id {message_id}")
        found: tuple[int, int] = row
        return found

    def children(self, conversation_id: int, parent_id: int | None) -> list[int]:
        """Return the versions below a message, oldest first; None: those that begin."""
        rows = self._file.rows(
            "SELECT id FROM message WHERE conversation_id = ? AND deleted_by IS NULL"
            " AND parent_id IS ? ORDER BY id",
            (conversation_id, parent_id),
        )
        return [row[0] for row in rows]

    def versions(self, message_id: int) -> list[StoredMessage]:
        """Return a message and its siblings, oldest first."""
        with translated(self._file.path):
            siblings = self.children(*self.require(message_id))
            places = {each: (place, len(siblings)) for place, each in enumerate(siblings, start=1)}
            return self._read(siblings, places)

    def newest_below(self, message_id: int) -> int:
        """Return the end of the newest branch through a message."""
        found: int = self._file.connection.execute(
            f"{BELOW} SELECT max(id) FROM message"  # noqa: S608 - fixed parts
            " WHERE id IN below AND deleted_by IS NULL",
            (message_id,),
        ).fetchone()[0]
        return found

    def leaf(self, conversation_id: int) -> int | None:
        """Return the message that ends the branch on show."""
        found: int | None = self._file.connection.execute(
            "SELECT active_leaf FROM conversation WHERE id = ?", (conversation_id,)
        ).fetchone()[0]
        return found

    def _read(
        self, ids: Sequence[int], places: Mapping[int, tuple[int, int]]
    ) -> list[StoredMessage]:
        rows = self._file.rows(_MESSAGES, (json.dumps(ids),))
        rows = [self._pieces.added_to(row) if row[STATE] == _UNFINISHED else row for row in rows]
        try:
            return messages_of(rows, places)
        except ValueError as error:
            raise damaged(self._file.path, str(error)) from error

    def end_at(self, conversation_id: int, message_id: int | None) -> None:
        """Let the branch on show end at a message, inside a transaction."""
        self._file.change(
            "UPDATE conversation SET active_leaf = ? WHERE id = ?", (message_id, conversation_id)
        )


def _walk(parents: Mapping[int, int | None], leaf: int | None) -> list[int]:
    """The branch that ends at `leaf`. In a damaged file: as far as it can be followed."""
    if leaf is not None and leaf not in parents:
        leaf = max(parents, default=None)
    branch: list[int] = []
    while leaf is not None and leaf in parents:
        branch.append(leaf)
        leaf = parents[leaf]
    return branch


def _places(parents: Mapping[int, int | None]) -> dict[int, tuple[int, int]]:
    """Return the number of a message's version and of its versions, where there are several."""
    sizes = Counter(parents.values())
    families: dict[int | None, list[int]] = {p: [] for p, size in sizes.items() if size > 1}
    if families:
        for message_id, parent_id in parents.items():
            if parent_id in families:
                families[parent_id].append(message_id)
    return {
        message_id: (place, len(family))
        for family in families.values()
        for place, message_id in enumerate(family, start=1)
    }
