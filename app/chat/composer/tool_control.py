"""Joins the tools of a conversation with the composer and the cards of their calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QWidget

from app.chat.composer.composer import Composer
from app.chat.messages.transcript import Transcript
from app.history import StoredMessage
from app.session.session import ChatSession
from app.tools.access import ToolAccess
from app.tools.call_phase import CallPhase, Decision
from engine.language import tr
from engine.request import Role

if TYPE_CHECKING:
    from app.chat.composer.tool_panel import ToolPanel
    from app.chat.messages.transcript import CallState


class ToolControl(QObject):
    """Shows which tools the conversation uses, and how far its calls are."""

    manage_asked = Signal()

    def __init__(
        self,
        composer: Composer,
        transcript: Transcript,
        session: ChatSession,
        tools: ToolAccess,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._parent = parent
        self._panel: ToolPanel | None = None
        self._composer, self._transcript = composer, transcript
        self._session, self._tools = session, tools
        transcript.call_state = self._state
        transcript.requests.decide.connect(self._decide)
        session.result_changed.connect(self._changed)
        tools.changed.connect(transcript.show_calls)

    @property
    def panel(self) -> ToolPanel:
        """The panel; made when it is first wanted."""
        if self._panel is None:
            from app.chat.composer.tool_panel import ToolPanel

            self._panel = panel = ToolPanel(self._parent)
            panel.chosen.connect(self._choose)
            panel.manage_asked.connect(self.manage_asked)
        return self._panel

    def open(self) -> None:
        """Open the panel above the composer."""
        host, words = self._tools.host, tr("What tools return is sent to {host}, which answers.")
        note = words.format(host=host) if host else ""
        self.panel.show_tools(self._tools.toolbox.entries, self._session.setup.tools, note)
        corner = QPoint(self._composer.tools_button.x(), -8)
        self.panel.open_above(self._composer.mapToGlobal(corner))

    def show_waiting(self) -> None:
        """Lead the keyboard to the call that waits for the user, if there is one."""
        for index, message in enumerate(self._session.messages):
            if message.role is Role.TOOL and self._tools.loop.phase(message) is CallPhase.ASKED:
                self._transcript.lead_to_call(index)

    def _state(self, message: StoredMessage) -> CallState:
        return self._tools.loop.state(message)

    def _decide(self, message_id: int, decision: Decision) -> None:
        self._tools.loop.decide(message_id, decision)

    def _choose(self, keys: tuple[str, ...]) -> None:
        self._session.set_setup(replace(self._session.setup, tools=keys))

    def _changed(self, message: StoredMessage) -> None:
        self._transcript.take_in(message)
        self._transcript.show_calls()
