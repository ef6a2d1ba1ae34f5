"""MCP servers as they are entered, read from JSON, kept, and turned on in the window."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtWidgets import QMessageBox, QPushButton
from tool_desk import ToolDesk, call_text

from app.settings_page.tool_server_dialog import ToolServerDialog
from app.settings_page.tool_server_json import ToolServerJson
from app.settings_page.tool_servers import ToolServers
from app.tools import stdio_transport
from app.tools.call_phase import CallPhase, Decision
from app.tools.kept import KeptTools, Permission, read, write
from app.tools.server import KnownTool, McpServer, servers_of
from app.tools.toolbox import Toolbox
from engine.errors import UserFixable

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

ROUGH = Path(__file__).parent / "rough_server_child.py"
COMMAND = (sys.executable, str(ROUGH), "good")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_transport, "_PATIENCE_S", 0.2)


def test_the_usual_json_is_read_and_all_is_off() -> None:
    told = {
        "mcpServers": {
            "a/b": {
                "command": "npx",
                "args": ["-y", "x; rm -rf /"],
                "env": {"KEY": "s3cret", "PORT": 5},
                "cwd": "/home/ada",
                "disabled": False,
                "enabled": True,
            },
            "web": {"type": "http", "url": "https://x.org/mcp", "headers": {"X-Key": "k"}},
        }
    }
    first, second = servers_of(told)
    assert first.name == "a-b"
    assert first.command == ("npx", "-y", "x; rm -rf /")
    assert first.variables == (("KEY", "s3cret"), ("PORT", "5"))
    assert (second.url, second.headers) == ("https://x.org/mcp", (("X-Key", "k"),))
    assert not first.enabled
    assert not second.enabled
    assert servers_of(told["mcpServers"])[1] == second


@pytest.mark.parametrize(
    "told",
    [
        *(None, [], {}, 7, "x", {"mcpServers": {}}, {"mcpServers": [1]}, {"a": 1}),
        *({"a": {}}, {"a": {"command": ""}}, {"a": {"command": ["x"]}}, {"a": {"command": "x\0"}}),
        *({"a": {"command": "x", "args": "y"}}, {"a": {"command": "x", "url": "http://h/"}}),
        *(
            {"a": {"url": "ftp://h/"}},
            {"a": {"url": "file:///etc/passwd"}},
            {"a": {"url": "http://"}},
        ),
        *({"a": {"url": "http://u:p@h/"}}, {"a": {"url": "http://h/ x"}}, {"": {"command": "x"}}),
        *({"a": {"url": "http://h/", "headers": {"Host": "other"}}},),
        *({"a": {"url": "http://h/", "headers": {"X": "a\r\nY: b"}}},),
        *({"a": {"command": "x", "env": {"A=B": "c"}}}, {"a": {"command": "x" * 5000}}),
    ],
)
def test_what_is_no_server_is_refused(told: object) -> None:
    with pytest.raises(UserFixable):
        servers_of(told)


def test_all_is_kept_and_damage_loses_no_more_than_itself(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    tools = (KnownTool("echo", "Echo", "Says it.", '{"type": "object"}'),)
    servers = (
        McpServer("a", ("x", "-y"), (("K", "v"),), "/home/ada", enabled=True, tools=tools),
        McpServer("b", url="https://h/mcp", headers=(("X", "y"),)),
    )
    kept = KeptTools(frozenset(map(Permission, "12")), servers)
    write(path, kept)
    assert read(path) == kept
    told = json.loads(path.read_text())
    told["servers"].insert(0, {"name": "c"})
    told["servers"] += [7, {"name": "d", "command": ["x"], "tools": [{"odd": 1}]}]
    path.write_text(json.dumps(told))
    assert read(path).servers == servers
    for text in ("", "{", "[]", '{"servers": 7, "always": 1}', "[" * 100_000):
        path.write_text(text)
        assert read(path) == KeptTools()
        assert path.with_suffix(".bad").read_text() == text  # somebody may mend it


def test_a_permission_ends_where_the_tool_or_its_server_changes(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path / "tools.json")
    tool = KnownTool("echo", "", "Says it.", '{"type": "object"}')
    server = McpServer("a", ("x",), enabled=True, tools=(tool,))
    toolbox.keep(server)
    (entry,) = toolbox.chosen(["a/echo"])
    toolbox.allow(entry, always=True)
    assert toolbox.allowed(entry)
    for other in (
        McpServer("a", ("y",), enabled=True, tools=(tool,)),
        McpServer("a", ("x",), (("K", "v"),), enabled=True, tools=(tool,)),
        McpServer("a", ("x",), enabled=True, tools=(KnownTool("echo", "", "Else."),)),
    ):
        toolbox.keep(other)
        assert not toolbox.allowed(toolbox.chosen(["a/echo"])[0])
    toolbox.keep(server)
    toolbox.turn_off("a")
    assert toolbox.chosen(["a/echo"]) == ()


def test_tools_of_one_name_are_told_apart(tmp_path: Path) -> None:
    toolbox = Toolbox(tmp_path / "tools.json")
    for name in ("a", "b"):
        tools = (KnownTool("calculator"), KnownTool("odd name/ü"))
        toolbox.keep(McpServer(name, ("x",), enabled=True, tools=tools))
    keys = [entry.key for entry in toolbox.entries]
    names = [entry.tool.name for entry in toolbox.chosen(keys)]
    assert len(set(names)) == len(names) == 6
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)


# -- in the window -------------------------------------------------------------------------


def press(desk: Desk, words: str) -> None:
    """Press a button of the question that is on show."""
    (box,) = [each for each in desk.assembly.window.findChildren(QMessageBox) if each.isVisible()]
    (button,) = [each for each in box.findChildren(QPushButton) if each.text() == words]
    button.click()


@pytest.fixture
def servers(desk: Desk) -> ToolServers:
    return ToolServers(desk.assembly.tools.toolbox, desk.assembly.window)


def test_a_server_is_added_by_hand_asked_for_turned_on_and_called(
    desk: Desk, servers: ToolServers
) -> None:
    toolbox = desk.assembly.tools.toolbox
    dialog = ToolServerDialog(toolbox, None, desk.assembly.window)
    dialog.name.setText("rough")
    dialog.command.setText(f'"{sys.executable}" "{ROUGH}" good')
    dialog.variables.setPlainText("GIVEN=a=b")
    dialog.keep_button.click()
    (server,) = toolbox.servers
    assert (server.command, server.variables) == (COMMAND, (("GIVEN", "a=b"),))
    assert not server.enabled
    line = servers.lines["rough"]
    line.switch.click()
    assert toolbox.servers[0].tools == ()  # the question comes first
    press(desk, "Cancel")
    line.switch.click()
    press(desk, "Turn on")
    desk.bot.waitUntil(lambda: toolbox.servers[0].enabled)
    assert "10 tools" in line.status.text()
    tools = ToolDesk(desk)
    tools.use("rough/echo")
    tools.ask(call_text("echo", text="Hello there"))
    assert tools.phases == [CallPhase.ASKED]
    assert tools.card(CallPhase.ASKED).card._source.text() == "From rough"
    tools.decide(Decision.ONCE, "It says hello.")
    assert [each.text for each in tools.calls] == ["Hello there"]
    line.switch.click()
    assert not toolbox.servers[0].enabled
    assert tools.loop.toolbox.chosen(["rough/echo"]) == ()


def test_stopping_the_answer_calls_a_tool_off(desk: Desk, tmp_path: Path) -> None:
    toolbox, mark = desk.assembly.tools.toolbox, tmp_path / "pids"
    tool = KnownTool(
        "hang",
        "",
        "Does what its name says.",
        json.dumps({"type": "object", "properties": {"text": {"type": "string"}}}),
    )
    command = (*COMMAND, str(mark))
    toolbox.keep(McpServer("rough", command, enabled=True, tools=(tool,)))
    tools = ToolDesk(desk)
    tools.use("rough/hang")
    tools.ask(call_text("hang"))
    tools.card(CallPhase.ASKED).card.buttons[Decision.ONCE].click()
    assert tools.phases == [CallPhase.RUNNING]
    assert desk.chat.composer.stop_button.isVisible()
    desk.bot.waitUntil(mark.exists)
    count = len(desk.script.requests)
    desk.chat.composer.stop_button.click()
    assert tools.phases == [CallPhase.STOPPED]
    tools.settle()
    assert len(desk.script.requests) == count
    assert not desk.chat.composer.stop_button.isVisible()


def test_a_tool_that_changed_is_not_run_and_loses_its_permission(
    desk: Desk,
) -> None:
    toolbox = desk.assembly.tools.toolbox
    old = KnownTool("echo", "", "Was harmless once.", '{"type": "object"}')
    toolbox.keep(McpServer("rough", COMMAND, enabled=True, tools=(old,)))
    toolbox.allow(toolbox.chosen(["rough/echo"])[0], always=True)
    tools = ToolDesk(desk)
    tools.use("rough/echo")
    desk.script.answer = call_text("echo", text="x")
    desk.type_and_send("Go")
    desk.bot.waitUntil(lambda: CallPhase.FAILED in tools.phases)
    assert "changed" in tools.calls[0].text
    desk.bot.waitUntil(lambda: CallPhase.ASKED in tools.phases)
    assert toolbox.servers[0].tools[0].description != old.description


def test_json_adds_servers_all_or_none(desk: Desk) -> None:
    toolbox = desk.assembly.tools.toolbox
    dialog = ToolServerJson(toolbox, desk.assembly.window)
    dialog.text.setPlainText('{"mcpServers": {"a": {"command": "x"}, "b": {"url": "ftp://h"}}}')
    dialog.take()
    assert toolbox.servers == ()
    assert not dialog.outcome.isHidden()
    dialog.text.setPlainText('{"mcpServers": {"a": {"command": "x"}}}')
    dialog.take()
    assert [(each.name, each.enabled) for each in toolbox.servers] == [("a", False)]
    again = ToolServerJson(toolbox, desk.assembly.window)
    again.text.setPlainText('{"mcpServers": {"a": {"command": "y"}}}')
    again.take()
    assert toolbox.servers[0].command == ("x",)
    again.reject()


def test_an_address_is_confirmed_with_what_is_said_of_it(desk: Desk, servers: ToolServers) -> None:
    toolbox = desk.assembly.tools.toolbox
    dialog = ToolServerDialog(toolbox, None, desk.assembly.window)
    dialog.by_address.setChecked(True)
    dialog.name.setText("far")
    dialog.address.setText("http://tools.example.org/mcp")
    dialog.key.setText("k3y")
    dialog.keep_button.click()
    assert toolbox.servers[0].headers == (("Authorization", "Bearer k3y"),)
    servers.lines["far"].switch.click()
    (box,) = [each for each in desk.assembly.window.findChildren(QMessageBox) if each.isVisible()]
    assert "tools.example.org" in box.text()
    assert "http://tools.example.org/mcp" in box.informativeText()
    assert "not encrypted" in box.informativeText()
    press(desk, "Cancel")


def test_closing_the_window_ends_servers(
    desk: Desk, servers: ToolServers, open_desk: Callable[..., Desk]
) -> None:
    import psutil

    toolbox = desk.assembly.tools.toolbox
    toolbox.keep(McpServer("rough", COMMAND))
    servers.lines["rough"].switch.click()
    press(desk, "Turn on")
    desk.bot.waitUntil(lambda: toolbox.servers[0].enabled)
    ours = [p for p in psutil.Process().children(recursive=True) if str(ROUGH) in p.cmdline()]
    assert len(ours) == 1
    desk.assembly.close()
    assert not any(process.is_running() for process in ours)
    again = open_desk(None)
    assert again.assembly.tools.toolbox.servers[0].enabled
    started = [p for p in psutil.Process().children(recursive=True) if str(ROUGH) in p.cmdline()]
    assert started == []  # it is on, and still nothing runs before it is called
