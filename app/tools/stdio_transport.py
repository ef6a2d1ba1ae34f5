"""An MCP server as a program of its own: messages in lines, with bounds for all that it writes.

The SDK's transport keeps a line of any length in memory. This one ends a server that writes a line
too long, or far more than anybody has asked for, and keeps the end of what it says on its error
stream. The command is a list of words, and no shell reads it.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.tools.process_tree import ProcessTree
from engine.errors import UserFixable
from engine.language import tr

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

LONGEST_LINE = 8 * 2**20
MOST_BYTES = 32 * 2**20
"""Bytes that a server may write before it is asked for something more."""
MOST_LINES = 20_000
_TAIL = 4_000
_PATIENCE_S = 1.5
_BATCH_FILES = (".bat", ".cmd")
_OF_BATCH_FILES = frozenset('"%&|<>^!\n')


@dataclass(slots=True)
class ServerTrouble:
    """Why a server's program was ended, and the end of what it said on its error stream."""

    flooded: bool = False
    tail: str = ""


class _Flooded(Exception):
    """The server writes far more than it was asked for."""


def program(command: Sequence[str]) -> list[str]:
    """Return a command with the path of its program.

    Raises:
        UserFixable: there is no such program, or its arguments would be read as a shell's.
    """
    path = shutil.which(command[0])
    if path is None:
        raise UserFixable(
            tr("The program “{name}” was not found.").format(name=command[0]),
            tr("Install it, or enter its full path."),
        )
    batch = Path(path).suffix.lower() in _BATCH_FILES
    if batch and any(_OF_BATCH_FILES & set(word) for word in command[1:]):
        raise UserFixable(
            tr("Windows would read some characters of these arguments as commands."),
            tr("Leave out quotes and the characters % & | < > ^ !, or start the program itself."),
        )
    return [path, *command[1:]]


@asynccontextmanager
async def stdio(
    command: Sequence[str],
    variables: Sequence[tuple[str, str]],
    folder: str,
    trouble: ServerTrouble,
) -> AsyncGenerator[TransportStreams]:
    """Run a server, and exchange messages with it; leaving ends it and all that it started.

    Args:
        command: the program and its arguments.
        variables: of its environment, beside those that the SDK passes on.
        folder: that it starts in; empty: the user's own.
        trouble: is told what goes wrong.

    Raises:
        UserFixable: it cannot be started.
    """
    import anyio
    from mcp.client.stdio import get_default_environment

    process = await _start(program(command), get_default_environment() | dict(variables), folder)
    tree = ProcessTree(process)
    pipes = _Pipes(process, tree, trouble)
    try:
        async with anyio.create_task_group() as group:
            for work in (pipes.read, pipes.write, pipes.listen):
                group.start_soon(work)
            try:
                yield pipes.read_stream, pipes.write_stream
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, tree)
            await pipes.close()


async def _start(
    words: Sequence[str], environment: dict[str, str], folder: str
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            cwd=folder or Path.home(),
            limit=LONGEST_LINE,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError) as error:
        raise UserFixable(
            tr("The program “{name}” could not be started.").format(name=words[0]),
            tr("Check that it is there, that you may run it, and that its folder exists."),
            str(error),
        ) from error


class _Pipes:
    """The three streams of a process."""

    def __init__(
        self, process: asyncio.subprocess.Process, tree: ProcessTree, trouble: ServerTrouble
    ) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        self._process, self._tree, self._trouble = process, tree, trouble
        self._to_session, self.read_stream = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self.write_stream, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._bytes = self._lines = 0

    async def read(self) -> None:
        """Hand the server's lines to the session, until it writes no more, or too much."""
        import anyio

        assert self._process.stdout is not None  # noqa: S101 - it was started with pipes
        try:
            async with self._to_session:
                while line := await self._process.stdout.readline():
                    self._count(line)
                    await self._to_session.send(_message(line))
        except (ValueError, _Flooded):  # asyncio's word for a line beyond its limit
            self._trouble.flooded = True
            self._tree.ask_to_end()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            pass

    def _count(self, line: bytes) -> None:
        self._bytes += len(line)
        self._lines += 1
        if self._bytes > MOST_BYTES or self._lines > MOST_LINES:
            raise _Flooded

    async def write(self) -> None:
        """Hand the session's messages to the server."""
        import anyio

        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        try:
            async with self._from_session:
                async for each in self._from_session:
                    self._bytes = self._lines = 0
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._process.stdin.write(text.encode() + b"\n")
                    await self._process.stdin.drain()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            await self._to_session.aclose()  # nobody waits for an answer that cannot come

    async def listen(self) -> None:
        """Keep the end of what the server says on its error stream."""
        assert self._process.stderr is not None  # noqa: S101 - it was started with pipes
        while piece := await self._process.stderr.read(_TAIL):
            self._trouble.tail = (self._trouble.tail + piece.decode("utf-8", "replace"))[-_TAIL:]

    async def close(self) -> None:
        """Give the streams back."""
        for stream in (self._to_session, self.read_stream, self.write_stream, self._from_session):
            await stream.aclose()


def _message(line: bytes) -> SessionMessage | Exception:
    import mcp_types
    from mcp.shared import message

    try:
        return message.SessionMessage(
            mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        )
    except ValueError as error:
        return error


async def _end(process: asyncio.subprocess.Process, tree: ProcessTree) -> None:
    """Close its input, then ask it to end, then make it and what it started end."""
    try:
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        for asks in (False, True):
            if asks:
                tree.ask_to_end()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(process.wait()), _PATIENCE_S)
                break
    finally:
        tree.end()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(process.wait()), _PATIENCE_S)
    transport = getattr(process, "_transport", None)  # nothing public gives its pipes back
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()
