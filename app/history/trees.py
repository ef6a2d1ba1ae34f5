"""Whole conversations with all their branches, as they are taken out and put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.history.answer_pieces import AnswerPieces
from app.history.answers import Answers
from app.history.branches import Branches
from app.history.columns import (
    clean_text,
    pack_calls,
    pack_ids,
    pack_sampling,
    pack_setup,
    pack_stats,
)
from app.history.conversations import CONVERSATION_COLUMNS, Conversations, conversation_of
from app.history.database import damaged, translated, work_connection
from app.history.file import HistoryFile
from app.history.folders import Folders
from app.history.message import MESSAGE_COLUMNS, StoredMessage, messages_of
from app.history.records import Conversation
from app.history.trash import DOOMED
from app.history.upkeep import Upkeep
from engine.request import Role

_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Tree:
    """A conversation outside of any file: ids mean something among its own messages only."""

    conversation: Conversation
    messages: tuple[StoredMessage, ...]
    """Parents before their children."""
    leaf: int | None = None
    """Id of the message that ends the branch on show."""
    folder: str = ""
    """Name of its folder, "" outside of any."""
    rounds: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Packed rounds of the answers, by the messages' ids."""


class Trees:
    """Hands whole conversations out and takes them in."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file
        self.conversations, self._folders = Conversations(file), Folders(file)
        self._pieces = AnswerPieces(file)
        self.branches = Branches(file, self._pieces)
        self._answers = Answers(file, self.branches)

    def tree(self, conversation_id: int) -> Tree:
        """A conversation with everything in it that is not deleted."""
        with translated(self._file.path):
            row = self._file.rows(
                f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = ?",  # noqa: S608
                (conversation_id,),
            )
            if not row:
                raise LookupError(f"no conversation with id {conversation_id}")
            rows = self._file.rows(
                f"SELECT {MESSAGE_COLUMNS} FROM message"  # noqa: S608 - fixed parts
                " WHERE conversation_id = ? AND deleted_by IS NULL ORDER BY id",
                (conversation_id,),
            )
            rows = [self._pieces.added_to(each) for each in rows]
            leaf = self.branches.leaf(conversation_id)
            rounds = self._file.rows(
                "SELECT r.message_id, r.packed FROM answer_rounds r JOIN message m"
                " ON m.id = r.message_id WHERE m.conversation_id = ? AND m.deleted_by IS NULL"
                " ORDER BY r.id",
                (conversation_id,),
            )
        conversation = conversation_of(row[0])
        folders = {folder.id: folder.name for folder in self._folders.all()}
        try:
            messages = tuple(messages_of(rows, {}))
        except ValueError as error:
            raise damaged(self._file.path, str(error)) from error
        folder = folders.get(conversation.folder_id or 0, "")
        return Tree(conversation, messages, leaf, folder, _by_message(rounds))

    def add(
        self, trees: Sequence[Tree], step: Callable[[int, int], None] = lambda *_: None
    ) -> list[Conversation]:
        """Store conversations from elsewhere, all or none. Folders are found by name, or made.

        It is done in small pieces, between which the window can write; until all are there they
        are hidden, and after a crash they are gone. `step` hears how many are done, of how many;
        what it raises ends the import.
        """
        added: list[Conversation] = []
        for tree in trees:
            step(len(added), len(trees))
            added.append(self._add_tree(tree))
        with self._file.writing():
            folders = {folder.name: folder.id for folder in reversed(self._folders.all())}
            for place, tree in enumerate(trees):
                added[place] = self._reveal(added[place], clean_text(tree.folder), folders)
        return added

    def _reveal(self, hidden: Conversation, folder: str, folders: dict[str, int]) -> Conversation:
        if folder and folder not in folders:
            folders[folder] = self._file.insert("INSERT INTO folder(name) VALUES (?)", (folder,))
        folder_id = folders.get(folder)
        self._file.change(
            "UPDATE conversation SET deleted_at = NULL, folder_id = ? WHERE id = ?",
            (folder_id, hidden.id),
        )
        return replace(hidden, folder_id=folder_id)

    def _add_tree(self, tree: Tree) -> Conversation:
        told = tree.conversation
        title = clean_text(told.title)
        with self._file.writing():
            conversation_id = self._file.insert(
                "INSERT INTO conversation(title, created_at, updated_at, deleted_at, pinned)"
                " VALUES (?, ?, ?, ?, ?)",
                (title, told.updated_at, told.updated_at, DOOMED, int(told.pinned)),
            )
        ids: dict[int | None, int | None] = {None: None}
        for start in range(0, len(tree.messages), _AT_ONCE):
            with self._file.writing():
                for message in tree.messages[start : start + _AT_ONCE]:
                    parent_id = ids[message.parent_id]
                    added = self._add_message(conversation_id, parent_id, message)
                    ids[message.id] = added
                    for packed in tree.rounds.get(message.id, ()):
                        self._answers.add_rounds(added, packed)
        setup = replace(told.setup, seen_after=ids.get(told.setup.seen_after))
        with self._file.writing():
            self._file.change(
                "UPDATE conversation SET active_leaf = ?, setup = ? WHERE id = ?",
                (ids.get(tree.leaf), clean_text(pack_setup(setup)), conversation_id),
            )
        return replace(told, id=conversation_id, title=title, folder_id=None, setup=setup)

    def _add_message(
        self, conversation_id: int, parent_id: int | None, message: StoredMessage
    ) -> int:
        text = clean_text(message.text)
        answer = message.role is Role.ASSISTANT
        message_id = self._file.insert(
            "INSERT INTO message(conversation_id, parent_id, role, text, state, model, signature,"
            " token_ids, marks, stats, sampling, created_at, varied, calls)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(conversation_id, parent_id, message.role, text, message.state),
                *(clean_text(message.model), clean_text(message.signature)),
                None if message.token_ids is None else pack_ids(message.token_ids),
                None if message.marks is None else message.marks.packed,
                pack_stats(message.stats),
                pack_sampling(message.sampling) if answer else None,
                message.created_at,
                message.varied,
                pack_calls(message.calls),
            ),
        )
        self._file.to_index(message_id)
        return message_id


def _by_message(rows: Sequence[tuple[int, bytes]]) -> dict[int, tuple[bytes, ...]]:
    found: dict[int, tuple[bytes, ...]] = {}
    for message_id, packed in rows:
        if isinstance(packed, bytes):
            found[message_id] = (*found.get(message_id, ()), packed)
    return found


@contextmanager
def beside(path: Path) -> Iterator[Trees]:
    """A second way into the history that is open at `path`, for a worker thread.

    Raises:
        UserFixable: the file cannot be read.
    """
    with translated(path), closing(work_connection(path)) as connection:
        yield Trees(HistoryFile(path, connection, Upkeep.of(path)))
