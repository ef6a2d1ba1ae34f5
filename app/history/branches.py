"""Messages as a tree: which branch is on show, versions side by side, deletion and its undoing.

Of the children of one message (or the first messages of a conversation) one is on show; they are
versions of each other. Ids grow from parent to child, so the newest of all messages below one is
the end of a branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from app.history.conversations import Conversations
from app.history.database import damaged, translated
from app.history.message import (
    ID,
    MARKS,
    MESSAGE_COLUMNS,
    STATE,
    TEXT,
    TOKEN_IDS,
    StoredMessage,
    messages_of,
)
from app.history.records import AnswerState, UndoToken

# Read from an index alone, in the order of parents, then ids.
_TREE = "SELECT id, parent_id FROM message WHERE conversation_id = ? AND deleted_by IS NULL"

_MESSAGES = (
    f"SELECT {MESSAGE_COLUMNS} FROM message"  # noqa: S608 - fixed parts
    " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)
_UNFINISHED = str(AnswerState.INTERRUPTED)

# A message and everything below it, in whatever state.
_BELOW = """
WITH RECURSIVE below(id) AS (
    VALUES (?) UNION SELECT m.id FROM message m JOIN below b ON m.parent_id = b.id
)
"""


class Branches(Conversations):
    """The part of the store that moves about in the tree of messages."""

    def messages(self, conversation_id: int) -> list[StoredMessage]:
        """The active branch, oldest first; an answer in progress with all it has so far."""
        with translated(self.path):
            parents = dict(self._rows(_TREE, (conversation_id,)))
            branch = _walk(parents, self._leaf(conversation_id))
            rows = self._rows(_MESSAGES, (json.dumps(branch),))
            rows = [self._with_pieces(row) if row[STATE] == _UNFINISHED else row for row in rows]
        try:
            return messages_of(rows, _places(parents))
        except ValueError as error:
            raise damaged(self.path, str(error)) from error

    def set_leaf(self, conversation_id: int, message_id: int | None) -> None:
        """End the branch on show at this message, so that the next one follows it; None: at the
        very beginning. What followed before stays as another version."""
        with self._writing():
            if message_id is not None:
                self._require(message_id, conversation_id)
            self._set_leaf(conversation_id, message_id)
        self._went_back.add(conversation_id)

    def show_version(self, message_id: int, step: int) -> None:
        """Show the sibling `step` places on, with the newest branch below it."""
        with self._writing():
            conversation_id, parent_id = self._require(message_id)
            siblings = self._children(conversation_id, parent_id)
            place = siblings.index(message_id) + step
            if not 0 <= place < len(siblings):
                raise LookupError(f"message {message_id} has no version {step:+d} from it")
            self._set_leaf(conversation_id, self._newest_below(siblings[place]))

    def show_message(self, message_id: int) -> None:
        """Show the branch of a message, with the newest of what follows it."""
        with self._writing():
            conversation_id, _ = self._require(message_id)
            self._set_leaf(conversation_id, self._newest_below(message_id))

    def delete_message(self, message_id: int) -> UndoToken:
        """Hide a message and everything below it until `close` purges it, or the token is used.

        Where the branch on show went through it, the version before it, else the one after it
        takes its place; without another version the branch ends at its parent.
        """
        with self._writing():
            conversation_id, parent_id = self._require(message_id)
            leaf = self._leaf(conversation_id)
            siblings = self._children(conversation_id, parent_id)
            self._connection.execute(
                f"{_BELOW} UPDATE message SET deleted_by = ?"  # noqa: S608 - fixed parts
                " WHERE id IN below AND deleted_by IS NULL",
                (message_id, message_id),
            )
            if leaf is None or self._deleted_by(leaf) != message_id:
                leaf = None
            else:
                place = siblings.index(message_id)
                others = siblings[:place][-1:] or siblings[place + 1 :][:1]
                follower = self._newest_below(others[0]) if others else parent_id
                self._set_leaf(conversation_id, follower)
        return UndoToken(conversation_id, message_id, leaf)

    def undelete(self, token: UndoToken) -> None:
        """Bring back what a deletion hid, complete and in its old place, and show it."""
        with self._writing():
            if token.message_id is None:
                self._change(
                    "UPDATE conversation SET deleted_at = NULL WHERE id = ?",
                    (token.conversation_id,),
                )
            else:
                self._undelete_message(token, token.message_id)

    def _undelete_message(self, token: UndoToken, message_id: int) -> None:
        # Where something above was deleted later, the message now goes with that.
        restored = self._connection.execute(
            "UPDATE message SET deleted_by = (SELECT above.deleted_by FROM message above"
            " JOIN message top ON above.id = top.parent_id WHERE top.id = :top)"
            " WHERE deleted_by = :top",
            {"top": message_id},
        )
        if not restored.rowcount:
            raise LookupError(f"message {message_id} was not deleted, or is gone")
        if token.leaf is not None and self._deleted_by(message_id) is None:
            # The leaf of then may still be hidden by another deletion.
            visible = token.leaf if self._deleted_by(token.leaf) is None else message_id
            self._set_leaf(token.conversation_id, self._newest_below(visible))

    def _settle_leaves(self, among: Iterable[int] | None = None) -> None:
        """Keep all in sight where going back was not followed by going on.

        Without `among` all conversations are looked at: in a large, cold file that takes seconds.
        """
        some = "" if among is None else f"c.id IN ({', '.join(map(str, among))}) AND"
        cut = self._rows(
            f"SELECT c.id, c.active_leaf FROM conversation c WHERE {some} EXISTS"  # noqa: S608
            " (SELECT 1 FROM message m WHERE m.conversation_id = c.id AND m.deleted_by IS NULL"
            " AND m.parent_id IS c.active_leaf)"
        )
        for conversation_id, leaf in cut:
            roots = self._children(conversation_id, None) if leaf is None else [leaf]
            self._set_leaf(conversation_id, self._newest_below(roots[-1]))

    # -- inside ----------------------------------------------------------------------------

    def _require(self, message_id: int, conversation_id: int | None = None) -> tuple[int, int]:
        """Conversation and parent of a message that is not deleted; LookupError without one."""
        row = self._connection.execute(
            "SELECT conversation_id, parent_id FROM message"
            " WHERE id = ? AND deleted_by IS NULL AND conversation_id = ifnull(?, conversation_id)",
            (message_id, conversation_id),
        ).fetchone()
        if row is None:
            raise LookupError(f"no message with id {message_id}")
        found: tuple[int, int] = row
        return found

    def _children(self, conversation_id: int, parent_id: int | None) -> list[int]:
        rows = self._rows(
            "SELECT id FROM message WHERE conversation_id = ? AND deleted_by IS NULL"
            " AND parent_id IS ? ORDER BY id",
            (conversation_id, parent_id),
        )
        return [row[0] for row in rows]

    def _newest_below(self, message_id: int) -> int:
        found: int = self._connection.execute(
            f"{_BELOW} SELECT max(id) FROM message"  # noqa: S608 - fixed parts
            " WHERE id IN below AND deleted_by IS NULL",
            (message_id,),
        ).fetchone()[0]
        return found

    def _leaf(self, conversation_id: int) -> int | None:
        found: int | None = self._connection.execute(
            "SELECT active_leaf FROM conversation WHERE id = ?", (conversation_id,)
        ).fetchone()[0]
        return found

    def _set_leaf(self, conversation_id: int, message_id: int | None) -> None:
        self._change(
            "UPDATE conversation SET active_leaf = ? WHERE id = ?", (message_id, conversation_id)
        )

    def _deleted_by(self, message_id: int) -> int | None:
        found: int | None = self._connection.execute(
            "SELECT deleted_by FROM message WHERE id = ?", (message_id,)
        ).fetchone()[0]
        return found

    def _with_pieces(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of `MESSAGE_COLUMNS` with what the answer has received so far."""
        text, ids, marks = self._pieces(row[ID])
        grown = list(row)
        grown[TEXT] += text
        grown[TOKEN_IDS] = joined(grown[TOKEN_IDS], ids)
        grown[MARKS] = joined(grown[MARKS], marks)
        return tuple(grown)

    def _pieces(self, message_id: int) -> tuple[str, bytes, bytes]:
        """Text, token ids and marks that an unfinished answer has received."""
        rows = self._rows(
            "SELECT text, token_ids, ifnull(marks, x'') FROM answer_piece"
            " WHERE message_id = ? ORDER BY id",
            (message_id,),
        )
        texts, ids, marks = zip(*rows, strict=True) if rows else ((), (), ())
        return "".join(texts), b"".join(ids), b"".join(marks)


def joined(blob: bytes | None, more: bytes) -> bytes | None:
    """Return a blob and what came after it; what is unknown from the start stays so."""
    return None if blob is None else blob + more


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
