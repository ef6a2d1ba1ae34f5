"""The messages of tools in the conversation on show: one for each call, with its result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from app.history import AnswerState, HistoryStore, StoredMessage
from app.notices import reporting
from app.session.session import ChatSession
from engine.request import Role


class CallMessages:
    """Adds them, and notes how far their calls are."""

    def __init__(self, session: ChatSession, store: HistoryStore) -> None:
        self._session, self._store = session, store

    def add(self) -> list[StoredMessage]:
        """Append one for each call of the answer that ends the branch; nothing runs yet."""
        session, added = self._session, list[StoredMessage]()
        conversation, messages = session.current, session.messages
        if conversation is None or not messages or session.live is not None:
            return added
        with reporting():
            session.writer.saving.require()
            for call in messages[-1].calls if messages[-1].role is Role.ASSISTANT else ():
                added.append(self._store.answers.add_call(conversation.id, call))
                messages.append(added[-1])
                session.message_added.emit(added[-1])
        return added

    def note(self, message_id: int, text: str, state: AnswerState) -> None:
        """Note how far a call is, and its result, in whichever conversation."""
        session = self._session
        write = partial(self._store.answers.set_result, message_id, text, state)
        session.writer.saving.write(message_id, write)
        index = session.branch.index(message_id)
        if index is not None:
            changed = replace(session.messages[index], text=text, state=state)
            session.messages[index] = changed
            session.result_changed.emit(changed)
