"""The conversations and folders there are, and what can be done with them. No widgets in here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.history import Conversation, Folder, HistoryStore, UndoToken
from app.history.trash import Trash
from app.notices import reporting
from app.signals import TypedSignal
from engine.language import tr, tr_count

_AT_ONCE = 50
"""Conversations taken in before the window gets its turn."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Conversations that were deleted together, or a folder and those that were in it."""

    conversations: tuple[Conversation, ...]
    tokens: tuple[UndoToken, ...] = ()
    folder: Folder | None = None


class ConversationList(QObject):
    """The conversations of the history, kept in step with it one at a time.

    Whoever changes a conversation elsewhere says so with `put` or `touch`; nothing is read twice.
    Trouble with the history is reported, and what was asked for did not happen.
    """

    refreshed = Signal()
    """Everything may be different."""
    changed = TypedSignal[Conversation]()
    """The `Conversation` that is new or different."""
    removed = TypedSignal[tuple[int, ...]]()
    """Ids of conversations that are gone."""
    folder_changed = TypedSignal[Folder]()
    """The `Folder` that is new or has another name."""
    folder_removed = Signal(int)
    """The folder with this id is gone; its conversations are outside of any."""
    deleted = TypedSignal[str, Deletion]()
    """A sentence on what was deleted, and the `Deletion` that `restore` takes back."""
    restored = TypedSignal[tuple[Conversation, ...]]()
    """The conversations that came back."""

    def __init__(self, store: HistoryStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._held: dict[int, Conversation] = {}
        self._folders: dict[int, Folder] = {}

    @property
    def path(self) -> Path:
        """The file of the history, for those who read it beside the window."""
        return self._store.path

    # -- what there is ---------------------------------------------------------------------

    def refresh(self) -> None:
        """Read everything anew."""
        with reporting():
            conversations = self._store.conversations.all()
            self._folders = {each.id: each for each in self._store.folders.all()}
            self._held = {each.id: each for each in conversations}
            self.refreshed.emit()

    def get(self, conversation_id: int | None) -> Conversation | None:
        """The conversation with this id as it is now."""
        return None if conversation_id is None else self._held.get(conversation_id)

    def newest_first(self) -> list[Conversation]:
        """All conversations, by the time of their last message."""
        return sorted(self._held.values(), key=lambda each: (-each.updated_at, -each.id))

    def folders(self) -> list[Folder]:
        """All folders, by name."""
        return sorted(self._folders.values(), key=lambda each: (each.name.casefold(), each.id))

    def put(self, conversation: Conversation) -> None:
        """Take in a conversation that is new or was changed by someone else."""
        if self._held.get(conversation.id) != conversation:
            self._held[conversation.id] = conversation
            self.changed.emit(conversation)

    def take_in(self, conversations: Sequence[Conversation]) -> None:
        """Conversations that were stored beside the window, maybe with folders; some at a time."""
        if any(each.folder_id not in (None, *self._folders) for each in conversations):
            with reporting():
                new = [each for each in self._store.folders.all() if each.id not in self._folders]
                self._folders.update({each.id: each for each in new})
                for folder in new:
                    self.folder_changed.emit(folder)
        for conversation in conversations[:_AT_ONCE]:
            self.put(conversation)
        rest = conversations[_AT_ONCE:]
        if rest:
            QTimer.singleShot(0, self, lambda: self.take_in(rest))

    def touch(self, conversation: Conversation) -> None:
        """Note that something was said in this conversation now; one that is gone stays gone."""
        held = self._held.get(conversation.id)
        if held is not None:
            self.put(replace(held, updated_at=max(time.time(), held.updated_at)))

    # -- conversations ---------------------------------------------------------------------

    def duplicate(self, conversation: Conversation, upto: int | None = None) -> Conversation | None:
        """Copy a conversation; None where that was not possible.

        Args:
            conversation: which one.
            upto: the message that the copy ends with, on its branch; None: all branches.
        """
        made: Conversation | None = None
        with reporting():
            tree = self._store.trees.tree(conversation.id)
            if upto is not None:
                known, kept = {each.id: each for each in tree.messages}, []
                here = known.get(upto)
                while here is not None:
                    kept.append(here)
                    here = known.get(here.parent_id) if here.parent_id is not None else None
                tree = replace(tree, messages=tuple(reversed(kept)), leaf=upto)
            title = tr("{title} (copy)").format(title=shown_title(conversation))
            named = replace(tree.conversation, title=title, pinned=False, updated_at=time.time())
            (made,) = self._store.trees.add([replace(tree, conversation=named)])
            self.take_in([made])
        return made

    def rename(self, conversation_id: int, title: str) -> None:
        """Give a conversation another title; an empty one is ignored."""
        held, title = self._held.get(conversation_id), " ".join(title.split())
        if held is None or not title or title == held.title:
            return
        with reporting():
            self._store.conversations.rename(held.id, title)
            self.put(replace(held, title=title))

    def pin(self, ids: Sequence[int], *, pinned: bool) -> None:
        """Keep conversations on top of the list, or no longer."""
        with reporting():
            for held in self._known(ids):
                if held.pinned != pinned:
                    self._store.conversations.pin(held.id, pinned)
                    self.put(replace(held, pinned=pinned))

    def move(self, ids: Sequence[int], folder_id: int | None) -> None:
        """Put conversations into a folder, or into none."""
        with reporting():
            for held in self._known(ids):
                if held.folder_id != folder_id:
                    self._store.folders.put(held.id, folder_id)
                    self.put(replace(held, folder_id=folder_id))

    def delete(self, ids: Sequence[int]) -> None:
        """Delete conversations; `deleted` says how to take it back."""
        done: list[tuple[Conversation, UndoToken]] = []
        with reporting():
            for held in self._known(ids):
                done.append((held, self._store.trash.delete_conversation(held.id)))
                del self._held[held.id]
        if not done:
            return
        deletion = Deletion(tuple(each for each, _ in done), tuple(token for _, token in done))
        self.removed.emit(tuple(each.id for each in deletion.conversations))
        self.deleted.emit(_deleted_words(deletion.conversations), deletion)

    def delete_for_good(self) -> None:
        """Delete all conversations and empty the trash; closing the history erases them."""
        self.delete(list(self._held))
        with reporting():
            self._store.trash.empty()

    @property
    def trash(self) -> Trash:
        """The trash of the history."""
        return self._store.trash

    def bring_back(self, token: UndoToken) -> None:
        """Take a conversation out of the trash."""
        with reporting():
            self._store.trash.undelete(token)
            self.refresh()

    def restore(self, deletion: Deletion) -> None:
        """Take a deletion back."""
        if deletion.folder is not None:
            folder = self.create_folder(deletion.folder.name)
            if folder is not None:
                self.move([each.id for each in deletion.conversations], folder.id)
            return
        back: list[Conversation] = []
        with reporting():
            for conversation, token in zip(deletion.conversations, deletion.tokens, strict=True):
                self._store.trash.undelete(token)
                kept = conversation.folder_id in self._folders  # or deleted meanwhile
                back.append(conversation if kept else replace(conversation, folder_id=None))
                self.put(back[-1])
        if back:
            self.restored.emit(tuple(back))

    # -- folders ---------------------------------------------------------------------------

    def create_folder(self, name: str) -> Folder | None:
        """Make a folder; the one there is where the name is taken, None where it is empty."""
        name = " ".join(name.split())
        folder = next((each for each in self._folders.values() if each.name == name), None)
        if folder is None and name:
            with reporting():
                folder = self._store.folders.create(name)
                self._folders[folder.id] = folder
                self.folder_changed.emit(folder)
        return folder

    def rename_folder(self, folder_id: int, name: str) -> None:
        """Give a folder another name; an empty one is ignored."""
        held, name = self._folders.get(folder_id), " ".join(name.split())
        if held is None or not name or name == held.name:
            return
        with reporting():
            self._store.folders.rename(folder_id, name)
            self._folders[folder_id] = replace(held, name=name)
            self.folder_changed.emit(self._folders[folder_id])

    def delete_folder(self, folder_id: int) -> None:
        """Delete a folder; its conversations stay, outside of any folder."""
        folder = self._folders.get(folder_id)
        if folder is None:
            return
        with reporting():
            self._store.folders.delete(folder_id)
            del self._folders[folder_id]
            inside = tuple(each for each in self._held.values() if each.folder_id == folder_id)
            self._held.update({each.id: replace(each, folder_id=None) for each in inside})
            self.folder_removed.emit(folder_id)
            words = tr("The folder \u201c{name}\u201d was deleted; its conversations are kept.")
            self.deleted.emit(words.format(name=folder.name), Deletion(inside, folder=folder))

    # -- inside ----------------------------------------------------------------------------

    def _known(self, ids: Sequence[int]) -> list[Conversation]:
        return [self._held[each] for each in ids if each in self._held]


def shown_title(conversation: Conversation) -> str:
    """Return the title of a conversation where people read it."""
    return conversation.title or tr("New chat")


def _deleted_words(conversations: Sequence[Conversation]) -> str:
    if len(conversations) == 1:
        return tr("\u201c{title}\u201d was deleted.").format(title=shown_title(conversations[0]))
    return tr_count(
        "{n} conversation was deleted.", "{n} conversations were deleted.", len(conversations)
    )
