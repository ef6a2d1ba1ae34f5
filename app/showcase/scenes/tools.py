"""Tools: chosen for a chat, calls in every phase, servers in the settings."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from app.settings_page.dialog import SettingsDialog
from app.settings_page.tool_server_dialog import ToolServerDialog
from app.settings_page.tool_server_json import ToolServerJson
from app.showcase.scenes.shoot import Shoot, new_chat
from app.showcase.stage import Stage, catch_up, settle, wait_for
from app.tools.call_phase import CallPhase, Decision
from app.tools.server import KnownTool, McpServer
from engine.request import Role

_SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}}'
_WEATHER = McpServer(
    "weather",
    (sys.executable, "-c", "import time; time.sleep(600)"),
    tools=(
        KnownTool("forecast", "Forecast", "Tell the weather of the next days.", _SCHEMA),
        KnownTool("alerts", "Alerts", "Tell which warnings are in force.", _SCHEMA),
    ),
)
_NOTES = McpServer("notes", url="https://notes.example.org/mcp")


def tools(stage: Stage, shoot: Shoot) -> None:
    """Show the choice of tools, a call asked for, running, done and failed, and the settings."""
    access, session = stage.assembly.tools, stage.assembly.session
    chat, toolbox = stage.window.chat, access.toolbox
    new_chat(stage)
    toolbox.keep(replace(_WEATHER, enabled=True))
    toolbox.keep(_NOTES)
    keys = ("calculator", "weather/forecast")
    session.set_setup(replace(session.setup, tools=keys))
    chat.tools.open()
    settle()
    shoot("tool-chooser", chat.tools.panel)
    chat.tools.panel.hide()

    chat.composer.set_text("What is 1234*5678, and how is the weather in Ulm?")
    chat.composer.send()
    _answer(stage, "I will calculate that first.\n" + _call("calculator", expression="1234*5678"))
    shoot("tool-asked")
    _decide(stage, Decision.ALWAYS)
    wait_for(lambda: session.live is not None)
    _answer(stage, _call("forecast", city="Ulm"))
    _decide(stage, Decision.ONCE)
    shoot("tool-running")
    session.stop()
    catch_up()
    shoot("tool-stopped")
    done = next(m for m in session.messages if access.loop.phase(m) is CallPhase.DONE)
    row = chat.transcript.bubble_at(session.messages.index(done))
    if (card := getattr(row, "card", None)) is not None:
        card.fold.click()
    catch_up()
    chat.composer.set_text("And 1/0?")
    chat.composer.send()
    _answer(stage, _call("calculator", expression="1/0"))
    wait_for(lambda: session.live is not None)
    _answer(stage, "Nothing can be divided by zero.")
    shoot("tool-done-and-failed")
    chat.composer.set_text("Then how is the weather in Ulm?")
    chat.composer.send()
    _answer(stage, _call("forecast", city="Ulm"))
    _decide(stage, Decision.DECLINE)
    wait_for(lambda: session.live is not None)
    _answer(stage, "Then I cannot tell how the weather is.")
    shoot("tool-declined")
    _settings(stage, shoot)
    toolbox.remove(_WEATHER.name)
    toolbox.remove(_NOTES.name)
    new_chat(stage)


def _settings(stage: Stage, shoot: Shoot) -> None:
    toolbox = stage.assembly.tools.toolbox
    stage.assembly.house.show_tools()
    settle()
    page = next(each for each in stage.window.findChildren(SettingsDialog) if each.isVisible())
    shoot("tool-settings", page)
    by_hand = ToolServerDialog(toolbox, None, page)
    by_hand.name.setText("files")
    by_hand.command.setText('npx -y @modelcontextprotocol/server-filesystem "/home/ada/my notes"')
    by_hand.open()
    settle()
    shoot("tool-server", by_hand)
    by_hand.reject()
    pasted = ToolServerJson(toolbox, page)
    pasted.open()
    settle()
    shoot("tool-servers-pasted", pasted)
    pasted.reject()
    page.close()


def _call(name: str, **arguments: str) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def _answer(stage: Stage, text: str) -> None:
    stage.stream(text)
    stage.finish(text)
    settle()
    catch_up()


def _decide(stage: Stage, decision: Decision) -> None:
    loop, session = stage.assembly.tools.loop, stage.assembly.session
    asked = [
        message
        for message in session.messages
        if message.role is Role.TOOL and loop.phase(message) is CallPhase.ASKED
    ]
    for message in asked:
        loop.decide(message.id, decision)
    settle()
    catch_up()
