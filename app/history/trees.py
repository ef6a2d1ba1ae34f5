"""Whole conversations with all their branches, as they are taken out and put in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.history.answers import Answers
from app.history.columns import (
    clean_text,
    pack_ids,
    pack_sampling,
    pack_setup,
    pack_stats,
)
from app.history.conversations import CONVERSATION_COLUMNS, conversation_of
from app.history.database import damaged, translated
from app.history.message import MESSAGE_COLUMNS, StoredMessage, messages_of
from app.history.records import Conversation
from engine.request import Role


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


class Trees(Answers):
    """The part of the store that hands conversations out and takes them in."""

    def tree(self, conversation_id: int) -> Tree:
        """A conversation with everything in it that is not deleted."""
        with translated(self.path):
            row = self._rows(
                f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = ?",  # noqa: S608
                (conversation_id,),
            )
            if not row:
                raise LookupError(f"no conversation with id {conversation_id}")
            rows = self._rows(
                f"SELECT {MESSAGE_COLUMNS} FROM message"  # noqa: S608 - fixed parts
                " WHERE conversation_id = ? AND deleted_by IS NULL ORDER BY id",
                (conversation_id,),
            )
            rows = [self._with_pieces(each) for each in rows]
            leaf = self._leaf(conversation_id)
        conversation = conversation_of(row[0])
        folders = {folder.id: folder.name for folder in self.folders()}
        try:
            messages = tuple(messages_of(rows, {}))
        except ValueError as error:
            raise damaged(self.path, str(error)) from error
        return Tree(conversation, messages, leaf, folders.get(conversation.folder_id or 0, ""))

    def add_trees(self, trees: Sequence[Tree]) -> list[Conversation]:
        """Store conversations from elsewhere, all or none. Folders are found by name, or made."""
        added: list[Conversation] = []
        with self._writing():
            folders = {folder.name: folder.id for folder in reversed(self.folders())}
            for tree in trees:
                name = clean_text(tree.folder)
                if name and name not in folders:
                    folders[name] = self._insert("INSERT INTO folder(name) VALUES (?)", (name,))
                added.append(self._add_tree(tree, folders.get(name)))
            self._new_words = True
        return added

    def _add_tree(self, tree: Tree, folder_id: int | None) -> Conversation:
        told = tree.conversation
        conversation_id = self._insert(
            "INSERT INTO conversation(title, created_at, updated_at, folder_id, pinned)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                *(clean_text(told.title), told.updated_at, told.updated_at),
                *(folder_id, int(told.pinned)),
            ),
        )
        ids: dict[int | None, int | None] = {None: None}
        for message in tree.messages:
            ids[message.id] = self._add_message(conversation_id, ids[message.parent_id], message)
        setup = replace(told.setup, seen_after=ids.get(told.setup.seen_after))
        leaf = ids.get(tree.leaf)
        self._change(
            "UPDATE conversation SET active_leaf = ?, setup = ? WHERE id = ?",
            (leaf, clean_text(pack_setup(setup)), conversation_id),
        )
        return replace(
            told,
            id=conversation_id,
            title=clean_text(told.title),
            folder_id=folder_id,
            setup=setup,
        )

    def _add_message(
        self, conversation_id: int, parent_id: int | None, message: StoredMessage
    ) -> int:
        text = clean_text(message.text)
        answer = message.role is Role.ASSISTANT
        message_id = self._insert(
            "INSERT INTO message(conversation_id, parent_id, role, text, state, model, signature,"
            " token_ids, marks, stats, sampling, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(conversation_id, parent_id, message.role, text, message.state),
                *(clean_text(message.model), clean_text(message.signature)),
                None if message.token_ids is None else pack_ids(message.token_ids),
                None if message.marks is None else message.marks.packed,
                pack_stats(message.stats),
                pack_sampling(message.sampling) if answer else None,
                message.created_at,
            ),
        )
        self._to_index(message_id)
        return message_id
