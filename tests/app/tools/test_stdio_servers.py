"""MCP servers as programs: real processes, well-behaved and not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from app.tools import stdio_transport
from app.tools.connections import Connections, ServerPatience, ToolsChanged
from app.tools.results import MOST, capped, harmless
from app.tools.server import KnownTool, McpServer
from engine.errors import UserFixable

HERE = Path(__file__).parent
T = TypeVar("T")
QUICK = ServerPatience(ready=60.0, result=60.0)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_transport, "_PATIENCE_S", 0.2)


def rough(how: str = "good", *more: object, name: str = "rough") -> McpServer:
    command = (sys.executable, str(HERE / "rough_server_child.py"), how, *map(str, more))
    return McpServer(name, command, enabled=True)


def run(work: Callable[[Connections], Awaitable[T]], patience: ServerPatience = QUICK) -> T:
    """Run this with connections, all of which have ended when it returns."""

    async def inside() -> T:
        connections = Connections(patience)
        try:
            return await asyncio.wait_for(work(connections), 120)
        finally:
            await connections.close()

    found = asyncio.run(inside())
    left = [each for each in psutil.Process().children(recursive=True) if _is_ours(each)]
    assert left == []
    return found


def _is_ours(process: psutil.Process) -> bool:
    try:
        return any("server_child" in word for word in process.cmdline())
    except psutil.Error:
        return False


def named(tools: tuple[KnownTool, ...], name: str) -> KnownTool:
    return next(each for each in tools if each.name == name)


def test_a_server_made_with_the_sdk() -> None:
    server = McpServer("sdk", (sys.executable, str(HERE / "mcp_server_child.py"), "stdio"))

    async def work(connections: Connections) -> None:
        tools = await connections.tools(server)
        assert [each.name for each in tools] == ["add", "refuse"]
        add = named(tools, "add")
        assert add.description == "Add two numbers."
        assert json.loads(add.parameters)["properties"].keys() == {"a", "b"}
        sums = await asyncio.gather(
            *(connections.call(server, add, {"a": i, "b": 1}) for i in range(5))
        )
        assert [each.text for each in sums] == ["1", "2", "3", "4", "5"]
        refused = await connections.call(server, named(tools, "refuse"), {})
        assert refused.failed
        wrong = await connections.call(server, add, {"a": "one"})
        assert wrong.failed

    run(work)


def test_the_program_gets_its_words_and_no_more_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "of another program")
    words = ("a b", "$HOME", "; touch x", '"quoted"')
    base = rough("good", *words)
    server = McpServer("rough", base.command, variables=(("GIVEN", "yes"),))

    async def work(connections: Connections) -> dict[str, object]:
        tools = await connections.tools(server)
        told = await connections.call(server, named(tools, "where"), {})
        found: dict[str, object] = json.loads(told.text)
        return found

    found = run(work)
    assert found["SECRET"] is None
    assert found["GIVEN"] == "yes"
    assert found["PATH"]
    assert found["argv"][2:] == list(words)  # type: ignore[index]


def test_what_a_server_does_wrong_is_told_and_it_can_be_called_again() -> None:
    async def work(connections: Connections) -> None:
        server = rough()
        tools = await connections.tools(server)
        died = await connections.call(server, named(tools, "die"), {})
        assert died.failed
        assert "Out of coffee." in died.text
        nonsense = await connections.call(server, named(tools, "nonsense"), {"text": "after all"})
        assert (nonsense.text, nonsense.failed) == ("after all", False)
        picture = await connections.call(server, named(tools, "picture"), {})
        assert "picture" in picture.text
        odd = await connections.call(server, named(tools, "odd"), {})
        assert harmless(odd.text) == "a\ufffd[2Jb\ufffdc\ufffdd\ne"
        long = await connections.call(server, named(tools, "long"), {})
        assert len(long.text) <= 4 * MOST
        assert len(capped(long.text)) < MOST + 100
        wrong = rough("wrong", name="wrong")
        told = await connections.call(wrong, named(tools, "echo"), {})
        assert told.failed

    run(work)


@pytest.mark.parametrize("how", ["flood", "lines"])
def test_a_flood_ends_the_server(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_transport, "LONGEST_LINE", 1 << 18)
    monkeypatch.setattr(stdio_transport, "MOST_LINES", 500)

    async def work(connections: Connections) -> None:
        server = rough()
        tools = await connections.tools(server)
        told = await connections.call(server, named(tools, how), {})
        assert told.failed
        assert "far too much" in told.text
        again = await connections.call(server, named(tools, "echo"), {"text": "here"})
        assert again.text == "here"

    run(work)


def test_a_call_that_is_called_off_ends_and_closing_ends_all_that_was_started(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "pids"

    async def work(connections: Connections) -> list[int]:
        server = rough("good", mark)
        tools = await connections.tools(server)
        task = asyncio.ensure_future(connections.call(server, named(tools, "hang"), {}))
        while not (mark.exists() and len(mark.read_text().split()) == 2):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [int(each) for each in mark.read_text().split()]

    for pid in run(work):
        gone = psutil.Process(pid) if psutil.pid_exists(pid) else None
        if gone is not None:
            psutil.wait_procs([gone], timeout=60)
        assert not psutil.pid_exists(pid) or gone is None or not gone.is_running()


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def never_ready(connections: Connections) -> None:
        with pytest.raises(UserFixable, match="in time"):
            await connections.tools(rough("silent"))

    run(never_ready, ServerPatience(ready=0.3, result=60.0))

    async def hangs(connections: Connections) -> None:
        server = rough("good", tmp_path / "pids")
        tools = await connections.tools(server)
        connections._patience = ServerPatience(ready=60.0, result=0.3)
        told = await connections.call(server, named(tools, "hang"), {})
        assert told.failed
        assert "in time" in told.text

    run(hangs)


def test_programs_that_do_not_start_are_told(tmp_path: Path) -> None:
    async def work(connections: Connections) -> None:
        with pytest.raises(UserFixable, match="not found"):
            await connections.tools(McpServer("x", ("no-such-program-here",)))
        with pytest.raises(UserFixable) as told:
            await connections.tools(rough("broken"))
        assert "There is no token." in told.value.remedy
        elsewhere = McpServer("x", rough().command, folder=str(tmp_path / "nowhere"))
        with pytest.raises(UserFixable, match="could not be started"):
            await connections.tools(elsewhere)

    run(work)


def test_a_tool_that_has_changed_is_not_run(tmp_path: Path) -> None:
    changed = tmp_path / "changed"

    async def work(connections: Connections) -> None:
        server = rough("changing", changed)
        tools = await connections.tools(server)
        await connections.drop(server.name)
        changed.touch()
        with pytest.raises(ToolsChanged) as told:
            await connections.call(server, named(tools, "echo"), {"text": "x"})
        assert "something else" in told.value.tools[0].description

    run(work)


def test_batch_files_get_no_signs_of_their_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "npx.cmd"
    file.touch()
    monkeypatch.setattr(stdio_transport.shutil, "which", lambda _: str(file))
    assert stdio_transport.program(["npx", "-y", "a server"]) == [str(file), "-y", "a server"]
    for word in ("a&b", "%PATH%", 'a"b', "a|b", "a\nb"):
        with pytest.raises(UserFixable):
            stdio_transport.program(["npx", word])
