"""Variables and keys of MCP servers: in the keyring, and in a private file where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import keyring
import pytest
from desk import Desk
from keyring.backends.fail import Keyring as NoKeyring

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from memory_keyring import Ring

from app.notices import Notice
from app.settings_page.tool_server_dialog import ToolServerDialog
from app.tools.kept import read
from app.tools.sealing import unsealed
from app.tools.server import KnownTool, McpServer
from app.tools.toolbox import Toolbox
from engine.errors import UserFixable

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

LOCAL = McpServer("files", ("true",), (("API_KEY", "s3cret"), ("PORT", "5")))
REMOTE = McpServer("web", url="https://x.org/mcp", headers=(("Authorization", "Bearer s3cret"),))


@pytest.fixture
def ring() -> Ring:
    ring = Ring()
    keyring.set_keyring(ring)
    return ring


@pytest.fixture(autouse=True)
def _no_ring_afterwards() -> object:
    yield
    keyring.set_keyring(NoKeyring())


def settled(desk: Desk) -> Toolbox:
    toolbox = desk.assembly.tools.toolbox
    desk.bot.waitUntil(lambda: not toolbox._sealing and not toolbox._keyring._busy)
    return toolbox


@pytest.mark.parametrize("server", [LOCAL, REMOTE], ids=lambda server: server.name)
def test_values_go_into_the_keyring_and_their_names_into_the_file(
    desk: Desk, ring: Ring, server: McpServer
) -> None:
    desk.assembly.tools.toolbox.keep(server)
    path = desk.assembly.paths.tools
    assert not path.exists(), "what is secret never was in the file"
    (kept,) = settled(desk).servers
    assert kept.sealed
    assert "s3cret" not in path.read_text()
    assert [name for name, _ in kept.variables] == [name for name, _ in server.variables]
    assert unsealed(read(path).servers[0]) == server
    desk.assembly.tools.toolbox.remove(server.name)
    settled(desk)
    assert ring.kept == {}


@pytest.mark.usefixtures("ring")
def test_what_is_left_empty_stays_and_what_is_entered_is_new(desk: Desk) -> None:
    toolbox = desk.assembly.tools.toolbox
    toolbox.keep(LOCAL)
    toolbox.keep(REMOTE)
    settled(desk)
    dialog = ToolServerDialog(toolbox, toolbox.server("files"), desk.assembly.window)
    assert dialog.variables.toPlainText() == "API_KEY=\nPORT="
    dialog.variables.setPlainText("API_KEY=\nPORT=6\nMORE=7")
    dialog._keep()
    settled(desk)
    (files, _) = toolbox.servers
    assert unsealed(files).variables == (("API_KEY", "s3cret"), ("PORT", "6"), ("MORE", "7"))
    dialog = ToolServerDialog(toolbox, toolbox.server("web"), desk.assembly.window)
    assert dialog.key.text() == ""
    dialog._keep()
    settled(desk)
    assert unsealed(toolbox.servers[1]) == REMOTE


@pytest.mark.usefixtures("ring")
def test_turning_on_with_tools_that_were_asked_for_before_keeps_the_seal(desk: Desk) -> None:
    toolbox = desk.assembly.tools.toolbox
    toolbox.keep(LOCAL)
    settled(desk)
    toolbox.turn_on(replace(LOCAL, tools=(KnownTool("x"),)))  # as it was when it was asked
    (kept,) = toolbox.servers
    assert (kept.sealed, kept.enabled, len(kept.tools)) == (True, True, 1)
    assert "s3cret" not in desk.assembly.paths.tools.read_text()
    toolbox.turn_off("files")
    assert unsealed(toolbox.servers[0]).variables == LOCAL.variables


def test_without_a_keyring_a_private_file_holds_them_and_that_is_said(
    desk: Desk, notices: list[Notice]
) -> None:
    keyring.set_keyring(NoKeyring())
    desk.assembly.tools.toolbox.keep(LOCAL)
    (kept,) = settled(desk).servers
    path = desk.assembly.paths.tools
    assert (kept, read(path).servers) == (LOCAL, (LOCAL,))
    assert path.stat().st_mode & 0o777 == 0o600
    assert "no keyring" in notices[-1].text


@pytest.mark.usefixtures("ring")
def test_a_window_that_closes_before_the_keyring_answers_loses_nothing(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(None)
    toolbox = desk.assembly.tools.toolbox
    toolbox.keep(LOCAL)
    toolbox.close()
    assert unsealed(read(desk.assembly.paths.tools).servers[0]) == LOCAL


def test_a_locked_keyring_is_told_when_the_values_are_needed(desk: Desk, ring: Ring) -> None:
    desk.assembly.tools.toolbox.keep(LOCAL)
    (kept,) = settled(desk).servers
    ring.locked = True
    with pytest.raises(UserFixable, match="does not return"):
        unsealed(kept)
