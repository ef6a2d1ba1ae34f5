"""Connections with MCP servers: made when a tool is first called, and held until it is turned off.

Everything here runs in the thread of `app.tools.tool_thread`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.tools.entry import ToolResult
from app.tools.results import MOST, harmless, one_line
from app.tools.server import MOST_TOOLS, KnownTool, McpServer
from app.tools.stdio_transport import ServerTrouble, stdio
from engine.errors import UserFixable
from engine.language import sentences, tr

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult

_MOST_PAGES = 20


@dataclass(frozen=True, slots=True)
class ServerPatience:
    """How long to wait for a server, in seconds: until it is ready, and for a result."""

    ready: float = 60.0
    result: float = 300.0


class ToolsChanged(Exception):
    """A server's tool is not what the user has seen of it.

    Args:
        tools: those that it has now.
    """

    def __init__(self, tools: tuple[KnownTool, ...]) -> None:
        super().__init__("the tool has changed")
        self.tools = tools


@dataclass(slots=True)
class _Held:
    """A connection, and the task that holds it: the SDK leaves it where it entered."""

    server: McpServer
    ready: asyncio.Future[Client]
    trouble: ServerTrouble = field(default_factory=ServerTrouble)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    tools: dict[str, KnownTool] | None = None
    """Tools that it told of in this connection, by name."""

    @property
    def over(self) -> bool:
        return self.leave.is_set() or self.task is None or self.task.done()


class Connections:
    """Servers that are connected."""

    def __init__(self, patience: ServerPatience | None = None) -> None:
        self._patience = patience or ServerPatience()
        self._held: dict[str, _Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks that hold connections, also those that are being left."""

    async def tools(self, server: McpServer) -> tuple[KnownTool, ...]:
        """Ask a server for its tools.

        Raises:
            UserFixable: it cannot tell, in words.
        """
        async with self._using(server, self._patience.ready) as held:
            held.tools = {tool.name: tool for tool in await _list(held.ready.result())}
            return tuple(held.tools.values())

    async def call(
        self, server: McpServer, tool: KnownTool, arguments: dict[str, object]
    ) -> ToolResult:
        """Call a tool; what goes wrong is a result as well, in words for the model and the user.

        Raises:
            ToolsChanged: the server has another tool of this name now, which nobody has allowed.
        """
        try:
            async with self._using(server, self._patience.ready) as held:
                if held.tools is None:
                    found = await _list(held.ready.result())
                    held.tools = {each.name: each for each in found}
            if held.tools.get(tool.name) != tool:
                raise ToolsChanged(tuple(held.tools.values()))
            async with self._using(server, self._patience.result) as held:
                return _result(await held.ready.result().call_tool(tool.name, arguments))
        except UserFixable as trouble:
            return ToolResult(sentences(trouble.cause, trouble.remedy), failed=True)

    async def drop(self, name: str) -> None:
        """End the connection with a server; nothing happens where there is none."""
        if (held := self._held.pop(name, None)) is not None:
            await _leave(held)

    async def close(self) -> None:
        """End all of them."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*map(_leave, held), return_exceptions=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def _using(self, server: McpServer, seconds: float) -> AsyncGenerator[_Held]:
        """The connection with a server; what goes wrong ends it, and is told in words."""
        held = await self._connected(server)
        try:
            async with asyncio.timeout(seconds):
                yield held
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            told = _told(held, error)
            if told is None:
                raise
            if told[1]:
                self._held.pop(server.name, None)
                await _leave(held)
            raise told[0] from error

    async def _connected(self, server: McpServer) -> _Held:
        held = self._held.get(server.name)
        if held is not None and (held.over or held.server.identity != server.identity):
            await self.drop(server.name)
            held = None
        if held is None:
            held = _Held(server, asyncio.get_running_loop().create_future())
            held.task = asyncio.create_task(_hold(held))
            self._tasks.add(held.task)
            held.task.add_done_callback(self._tasks.discard)
            self._held[server.name] = held
        try:
            async with asyncio.timeout(self._patience.ready):
                await asyncio.shield(held.ready)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._held.pop(server.name, None)
            told = _told(held, error)
            await _leave(held)
            if told is None:
                raise
            raise told[0] from error
        return held


async def _list(client: Client) -> tuple[KnownTool, ...]:
    """Ask for all tools."""
    found: list[KnownTool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += [
            KnownTool(
                tool.name,
                one_line(tool.title or "", 80),
                harmless(tool.description or ""),
                json.dumps(tool.input_schema),
            )
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None or len(found) >= MOST_TOOLS:
            break
    return tuple(found[:MOST_TOOLS])


async def _hold(held: _Held) -> None:
    """Enter a connection, and leave it in the same task when that is wanted."""
    from mcp.client.client import Client
    from mcp_types import Implementation

    from app.tools.http_transport import http
    from app.tools.sealing import unsealed
    from app.version import version

    try:
        server = await asyncio.to_thread(unsealed, held.server)
        transport = (
            http(server.address, server.headers)
            if server.url
            else stdio(server.command, server.variables, server.folder, held.trouble)
        )
        about = Implementation(name="duotail", version=version())
        async with Client(transport, client_info=about, cache=None) as client:
            held.ready.set_result(client)
            await held.leave.wait()
    except BaseException as error:
        if not held.ready.done():
            held.ready.set_exception(_first(error))
            held.ready.exception()  # somebody may wait for it, or nobody any more
        elif not isinstance(error, Exception | BaseExceptionGroup):
            raise
    finally:
        held.leave.set()


async def _leave(held: _Held) -> None:
    held.leave.set()
    if held.task is None:
        return
    if not held.ready.done():
        held.task.cancel()
    with suppress(Exception, asyncio.CancelledError):
        await asyncio.shield(held.task)


def _first(error: BaseException) -> BaseException:
    """Return the error in a group that tells most: one of ours, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [_first(each) for each in error.exceptions]
    return next((each for each in inner if isinstance(each, UserFixable)), inner[0])


def _told(held: _Held, error: BaseException) -> tuple[UserFixable, bool] | None:
    """Return what went wrong, in words, and whether the connection is over; None: a bug."""
    from mcp_types import CONNECTION_CLOSED

    first, name, tail = _first(error), held.server.name, harmless(held.trouble.tail)
    details = "\n".join(filter(None, (str(first), tail)))
    code = getattr(getattr(first, "error", None), "code", None)
    if isinstance(first, UserFixable):
        return first, True
    if held.trouble.flooded:
        return UserFixable(
            tr("“{name}” wrote far too much and was ended.").format(name=name),
            tr("Look for a newer version of this server."),
            details,
        ), True
    if isinstance(first, TimeoutError):
        return UserFixable(
            tr("“{name}” did not answer in time.").format(name=name),
            tr("Try again, or look at what the server is doing."),
            details,
        ), True
    if code is not None and code != CONNECTION_CLOSED and held.ready.done():
        message = one_line(str(first), 500)
        return UserFixable(
            tr("“{name}” refused: {message}").format(name=name, message=message), "", details
        ), False
    if isinstance(first, Exception):
        ended = one_line(tail, 300)
        words = tr("Its last message: {words}").format(words=ended) if ended else tr("Try again.")
        return UserFixable(
            tr("The connection with “{name}” failed.").format(name=name), words, details
        ), True
    return None


def _result(told: CallToolResult) -> ToolResult:
    """Return the texts of a result; what is no text is named."""
    parts: list[str] = []
    for each in told.content:
        match each.type:
            case "text":
                parts.append(each.text)
            case "resource":
                text = getattr(each.resource, "text", None)
                parts.append(text if isinstance(text, str) else tr("[data without text]"))
            case "resource_link":
                parts.append(f"[{each.name}: {each.uri}]")
            case "image":
                parts.append(tr("[a picture, which models here cannot see]"))
            case _:
                parts.append(tr("[data without text]"))
    text = "\n".join(parts)
    if not text and told.structured_content is not None:
        text = json.dumps(told.structured_content, ensure_ascii=False)
    return ToolResult(text[: 4 * MOST], failed=bool(told.is_error))
