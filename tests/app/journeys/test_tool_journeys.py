"""A tool of a real server, called by the real engine in a real window."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from traveller import Traveller

from app.chat.messages.tool_message import ToolMessage
from app.history import AnswerState
from app.tools.call_phase import CallPhase, Decision
from app.tools.server import McpServer
from engine.request import Role, ToolChoice

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_ROUGH = Path(__file__).parents[1] / "tools" / "rough_server_child.py"


def test_a_tool_of_a_server_is_called_and_the_answer_goes_on(
    traveller: Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    traveller.start()
    access, session = traveller.assembly.tools, traveller.session
    toolbox = access.toolbox
    toolbox.keep(McpServer("rough", (sys.executable, str(_ROUGH), "choosing")))
    ready: list[McpServer] = []
    toolbox.try_out(toolbox.servers[0], ready.append, pytest.fail, traveller.window)  # type: ignore[arg-type]
    traveller.until(lambda: bool(ready))
    toolbox.turn_on(ready[0])
    session.set_setup(replace(session.setup, tools=("rough/echo",), max_tokens=60))

    # A model this small calls nothing by itself: its first answer has to be a call.
    honest = session.offers

    def offers() -> ToolChoice:
        first = not any(message.role is Role.TOOL for message in session.messages)
        return replace(honest(), required=True, parallel=False) if first else ToolChoice()

    monkeypatch.setattr(session, "offers", offers)
    traveller.chat.composer.set_text("Say something.")
    traveller.chat.composer.send()
    traveller.until(lambda: traveller.chat.transcript.row_count == 3)
    question, answer, call = session.messages
    assert answer.state is AnswerState.COMPLETE
    assert answer.calls == call.calls
    assert json.loads(call.calls[0].arguments)["text"] in ("hello", "goodbye")
    row = traveller.chat.transcript.bubble_at(2)
    assert isinstance(row, ToolMessage)
    assert access.loop.phase(call) is CallPhase.ASKED
    row.card.buttons[Decision.ONCE].click()
    traveller.until(lambda: len(session.messages) == 4 and not session.busy)
    done = session.messages[2]
    assert (done.state, done.text) == (
        AnswerState.COMPLETE,
        json.loads(call.calls[0].arguments)["text"],
    )
    assert session.messages[3].role is Role.ASSISTANT
    assert session.messages[3].text
    assert question.text == "Say something."
