"""The branch on show: the messages from the first to the newest, and how it is moved about.

Messages form a tree; what an edit or a new answer takes the place of stays as another version.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.history import Conversation, HistoryStore, StoredMessage, UndoToken
from app.session.live_answer import LiveAnswer
from app.signals import TypedSignal
from engine.request import SamplingParams


class Branch(QObject):
    """Keeps the messages in step with the history. Every method may raise `UserFixable`.

    Args:
        store: the history.
        completed: adds to stored messages what is not stored yet.
        parent: the owner.
    """

    changed = TypedSignal[int, list[StoredMessage]]()
    """Index of the first message that is another one now, and all messages."""
    added = TypedSignal[StoredMessage]()
    """A message was said; answers are told by whoever has them written."""

    def __init__(
        self,
        store: HistoryStore,
        completed: Callable[[list[StoredMessage]], list[StoredMessage]],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._completed = store, completed
        self.messages: list[StoredMessage] = []

    def index(self, message_id: int | None) -> int | None:
        """Return where a message is; the last one for None."""
        if message_id is None:
            return len(self.messages) - 1 if self.messages else None
        return next((i for i, each in enumerate(self.messages) if each.id == message_id), None)

    def ends_with(self, live: LiveAnswer | None) -> bool:
        """Return whether this answer is the newest message here."""
        return live is not None and bool(self.messages) and self.messages[-1].id == live.base.id

    def read(self, conversation: Conversation | None, live: LiveAnswer | None) -> None:
        """Take in what is stored, with all that has come of the answer in progress."""
        self.messages = []
        if conversation is not None:
            self.messages = self._completed(self._store.branches.messages(conversation.id))
        if live is not None and self.ends_with(live):
            self.messages[-1] = live.message

    def show_again(self, conversation: Conversation, live: LiveAnswer | None) -> None:
        """Read anew after a move in the tree, and tell from where on it is another branch."""
        before = self.messages
        self.read(conversation, live)
        same = 0
        for old, new in zip(before, self.messages, strict=False):
            if _look(old) != _look(new):
                break
            same += 1
        self.changed.emit(same, self.messages)

    def cut(self, conversation: Conversation, index: int) -> None:
        """End the branch before `index`, so that what is said next stands beside what was there."""
        leaf = self.messages[index - 1].id if index else None
        self._store.branches.set_leaf(conversation.id, leaf)
        del self.messages[index:]
        self.changed.emit(index, self.messages)

    def say(self, conversation: Conversation, text: str) -> None:
        """Append what the user says."""
        message = self._store.answers.add_user_message(conversation.id, text)
        self.messages.append(message)
        self.added.emit(message)

    def versions(self, message_id: int) -> list[StoredMessage]:
        """Return all versions of a message, oldest first."""
        return self._store.branches.versions(message_id)

    def begin_answer(
        self, conversation: Conversation, model: str, sampling: SamplingParams, *, varied: bool
    ) -> StoredMessage:
        """Append an answer of which nothing is written yet."""
        message = self._store.answers.begin(
            conversation.id, model=model, sampling=sampling, varied=varied
        )
        self.messages.append(message)
        return message

    def replace_last(self, message: StoredMessage) -> None:
        """The answer at the end has come further."""
        self.messages[-1] = message

    def step(self, message_id: int, step: int) -> None:
        """Make another version the active one; `show_again` shows it."""
        self._store.branches.show_version(message_id, step)

    def go_to(self, message_id: int) -> None:
        """Make the branch of a message the active one; `show_again` shows it."""
        self._store.branches.show_message(message_id)

    def delete(self, message_id: int) -> UndoToken:
        """Delete a message and what follows it; `show_again` shows what is left."""
        return self._store.trash.delete_message(message_id)


def _look(message: StoredMessage) -> tuple[object, ...]:
    """Return the fields that tell two messages apart; a text left in the file stays unread."""
    return message.id, message.state, message.version, message.versions
