"""Conversations with tools, on a scripted engine."""

from __future__ import annotations

import json
from dataclasses import replace

from desk import Desk

from app.chat.messages.tool_message import ToolMessage
from app.history import StoredMessage
from app.tools.call_phase import CallPhase, Decision
from app.tools.loop import ToolLoop
from engine.request import Role


def call_text(name: str, **arguments: object) -> str:
    """A call as Qwen and Hermes write it."""
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


class ToolDesk:
    """A window whose conversation may use tools."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.session = desk, desk.session
        self.loop: ToolLoop = desk.assembly.tools.loop

    def use(self, *keys: str) -> None:
        self.session.set_setup(replace(self.session.setup, tools=keys))

    def ask(self, answer: str, question: str = "How much?") -> None:
        """Send a question that is answered like this, and wait until calls are on show."""
        self.desk.script.answer = answer
        self.desk.type_and_send(question)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing happens by itself any more, and all of it is shown."""
        shown = self.desk.chat.transcript
        self.desk.bot.waitUntil(
            lambda: not self.session.busy and shown.row_count == len(self.session.messages)
        )

    def decide(self, decision: Decision, answer: str) -> None:
        """Press a button of the card that waits; the model then says `answer`."""
        self.desk.script.answer = answer
        count = len(self.desk.script.requests)
        card = self.card(CallPhase.ASKED).card
        card.buttons[decision].click()
        self.desk.bot.waitUntil(
            lambda: len(self.desk.script.requests) > count or CallPhase.ASKED in self.phases
        )
        self.settle()

    @property
    def calls(self) -> list[StoredMessage]:
        return [each for each in self.session.messages if each.role is Role.TOOL]

    @property
    def phases(self) -> list[CallPhase]:
        return [self.loop.phase(each) for each in self.calls]

    def card(self, phase: CallPhase) -> ToolMessage:
        message = next(each for each in self.calls if self.loop.phase(each) is phase)
        index = self.session.messages.index(message)
        row = self.desk.chat.transcript.bubble_at(index)
        assert isinstance(row, ToolMessage)
        return row
