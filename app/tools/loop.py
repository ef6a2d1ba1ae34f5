"""The loop of calls: an answer asks for tools, the user allows them, the answer goes on.

    answer with calls --> each call a message --> allowed? --> run --> result --> next answer
                                                  asked for first, or declined

Only calls of an answer that has just ended here may run without being asked for, and only if the
user has allowed this very tool. What was stored before, or came from elsewhere, is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.engine_link.bridge import EngineBridge
from app.history import AnswerState, HistoryStore, StoredMessage
from app.session.call_messages import CallMessages
from app.session.calls import DECLINED, STOPPED, UNKNOWN
from app.session.session import ChatSession
from app.tools.call_phase import CallPhase, Decision
from app.tools.entry import Cancel, ToolEntry, ToolResult
from app.tools.toolbox import Toolbox
from engine.language import tr
from engine.request import Role

MOST_CALLS = 12
"""Calls since the user's last message; from then on each one is asked for."""
_ENDED = {
    AnswerState.COMPLETE: CallPhase.DONE,
    AnswerState.FAILED: CallPhase.FAILED,
}


class ToolLoop(QObject):
    """Runs the calls of the conversation on show, one after the other."""

    changed = Signal()
    """A call is another phase on."""

    def __init__(
        self,
        session: ChatSession,
        store: HistoryStore,
        toolbox: Toolbox,
        bridge: EngineBridge,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self.toolbox, self._bridge = session, toolbox, bridge
        self._messages = CallMessages(session, store)
        self._allowed: set[tuple[int, str]] = set()
        """Chats, and digests of tools that may run in them until Duotail is closed."""
        self._running: int | None = None
        """The message of the call that runs."""
        self._cancel: Cancel = lambda: None
        session.answer_finished.connect(lambda _: self._take())
        session.opened.connect(lambda _: self.show_stored())
        session.branch_changed.connect(lambda *_: self._leave())
        session.message_added.connect(self._added)
        session.stopping.connect(self._leave)

    # -- what is shown ---------------------------------------------------------------------

    def entry(self, message: StoredMessage) -> ToolEntry | None:
        """Return the tool that a call is for; None: it is not chosen any more."""
        name = next((call.name for call in message.calls), "")
        chosen = self.toolbox.chosen(self._session.setup.tools)
        return next((each for each in chosen if each.tool.name == name), None)

    def phase(self, message: StoredMessage) -> CallPhase:
        """Return how far a call is."""
        if message.id == self._running:
            return CallPhase.RUNNING
        if message.state in _ENDED:
            return _ENDED[message.state]
        if message.state is AnswerState.STOPPED:
            return CallPhase.DECLINED if message.text == DECLINED else CallPhase.STOPPED
        waiting = [each.id for each in self._pending() if each.state is AnswerState.INTERRUPTED]
        if message.id not in waiting:
            return CallPhase.DECLINED
        first = message.id == waiting[0] and self._running is None
        return CallPhase.ASKED if first else CallPhase.WAITING

    def state(self, message: StoredMessage) -> tuple[CallPhase, ToolEntry | None]:
        """Return how far a call is, and its tool."""
        return self.phase(message), self.entry(message)

    def _pending(self) -> Sequence[StoredMessage]:
        """Return the calls that end the branch on show."""
        messages = self._session.messages
        start = len(messages)
        while start and messages[start - 1].role is Role.TOOL:
            start -= 1
        return messages[start:]

    # -- the user --------------------------------------------------------------------------

    def decide(self, message_id: int, decision: Decision) -> None:
        """Take the user's answer to the question whether a call may run."""
        message = next((each for each in self._pending() if each.id == message_id), None)
        if message is None or self.phase(message) is not CallPhase.ASKED:
            return
        if decision is Decision.DECLINE:
            self._messages.note(message_id, DECLINED, AnswerState.STOPPED)
            self._go_on()
            return
        entry, conversation = self.entry(message), self._session.current
        if entry is not None and conversation is not None and decision is Decision.CHAT:
            self._allowed.add((conversation.id, entry.digest))
        elif entry is not None and decision is Decision.ALWAYS:
            self.toolbox.allow(entry, always=True)
        self._run(message)

    # -- the loop --------------------------------------------------------------------------

    def _take(self) -> None:
        """Take the calls of an answer that has just ended."""
        if self._messages.add():
            self._go_on()

    def show_stored(self) -> None:
        """Show the calls of an answer that ended elsewhere; none of them runs by itself."""
        self._leave()
        if self._session.offers().tools and self._messages.add():
            self.changed.emit()

    def _added(self, message: StoredMessage) -> None:
        if message.role is not Role.TOOL:
            self._leave()

    def _leave(self) -> None:
        """Call off what runs: its place is not on show any more, or it was stopped."""
        if self._running is not None:
            message_id, self._running = self._running, None
            self._cancel()
            self._messages.note(message_id, STOPPED, AnswerState.STOPPED)
            self._session.set_calling(calling=False)
        self.changed.emit()

    def _go_on(self) -> None:
        """Run the next call if it may, or have the model go on once all of them have ended."""
        pending = self._pending()
        waiting = [each for each in pending if each.state is AnswerState.INTERRUPTED]
        if waiting and self._may_run(waiting[0]):
            self._run(waiting[0])
        elif pending and not waiting:
            self.changed.emit()
            self._session.answer_results()
        else:
            self.changed.emit()

    def _may_run(self, message: StoredMessage) -> bool:
        entry, conversation = self.entry(message), self._session.current
        if entry is None or conversation is None or self._calls_so_far() > MOST_CALLS:
            return False
        return self.toolbox.allowed(entry) or (conversation.id, entry.digest) in self._allowed

    def _calls_so_far(self) -> int:
        count = 0
        for message in reversed(self._session.messages):
            if message.role is Role.USER:
                break
            count += message.role is Role.TOOL
        return count

    def _run(self, message: StoredMessage) -> None:
        entry = self.entry(message)
        if entry is None:
            self._ended(message.id, ToolResult(UNKNOWN, failed=True))
            return
        self._running = message.id
        # Written before it begins: after a crash nobody takes it for a call that never ran.
        self._messages.note(message.id, "", AnswerState.STOPPED)
        self._session.set_calling(calling=True)
        self.changed.emit()

        def done(result: ToolResult) -> None:
            if self._running == message.id:
                self._running = None
                self._ended(message.id, result)
                self._session.set_calling(calling=self._running is not None)

        self._cancel = self.toolbox.run(entry, message.calls[0], self._session.messages, done, self)

    def _ended(self, message_id: int, result: ToolResult) -> None:
        from app.tools.results import capped, harmless  # not for the first picture

        plan = self._bridge.status.plan
        text = capped(harmless(result.text), None if plan is None else plan.context or None)
        state = AnswerState.FAILED if result.failed else AnswerState.COMPLETE
        self._messages.note(message_id, text or tr("(no output)"), state)
        self._go_on()
