"""The conversation on show, with its setup; also one that has not begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.history import ChatSetup, Conversation, HistoryStore
from app.session.conversation_list import ConversationList
from app.settings import Settings, SettingsStore


class OpenConversation(QObject):
    """Methods that write may raise `UserFixable`.

    Args:
        usual: returns the setup of a conversation that has not begun, where none was chosen.
    """

    changed = Signal()
    """The title, place or setup has changed."""

    def __init__(
        self,
        store: HistoryStore,
        settings: SettingsStore,
        conversations: ConversationList,
        usual: Callable[[], ChatSetup],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._settings = settings
        self._conversations = conversations
        self._usual = usual
        self._new_setup: ChatSetup | None = None
        """The setup chosen for a conversation that has not begun."""
        self.current: Conversation | None = None
        self._instructions = settings.value.instructions
        settings.changed.connect(self._settings_changed)
        conversations.changed.connect(self._listed)

    @property
    def setup(self) -> ChatSetup:
        """Return the setup that goes along with the messages."""
        if self.current is not None:
            return self.current.setup
        if self._new_setup is not None:
            return self._new_setup
        return self._usual()

    @property
    def sent_setup(self) -> ChatSetup:
        """Return the setup with the user's custom instructions in its system prompt."""
        return self.setup.with_instructions(self._instructions)

    def set_setup(self, setup: ChatSetup) -> None:
        """Let answers be drawn like this from now on."""
        if setup == self.setup:
            return
        if self.current is None:
            self._new_setup = setup
            self.changed.emit()
        else:
            self._store.conversations.set_setup(self.current.id, setup)
            self._conversations.put(replace(self.current, setup=setup))

    def show(self, conversation: Conversation | None) -> None:
        """Take another conversation as open; None: one that has not begun."""
        self.current, self._new_setup = conversation, None
        self.remember()

    def begin(self, title: str) -> Conversation:
        """Store the one that has not begun, with the setup that was chosen for it."""
        setup = self.setup
        conversation = self._store.conversations.create(title)
        if setup != conversation.setup:
            self._store.conversations.set_setup(conversation.id, setup)
            conversation = replace(conversation, setup=setup)
        self.current = conversation
        self._conversations.put(conversation)
        return conversation

    def is_any_of(self, ids: tuple[int, ...]) -> bool:
        """Return whether one of these is open."""
        return self.current is not None and self.current.id in ids

    def remember(self) -> None:
        """Save soon what is open: after a power cut the next start shows it again."""
        self._settings.change(last_conversation=self.current.id if self.current else None)
        self._settings.flush_soon()

    def _settings_changed(self, settings: Settings) -> None:
        if settings.instructions != self._instructions:
            self._instructions = settings.instructions
            self.changed.emit()

    def _listed(self, conversation: Conversation) -> None:
        """The list has a newer state of a conversation."""
        if self.is_any_of((conversation.id,)) and self.current != conversation:
            self.current = conversation
            self.changed.emit()
