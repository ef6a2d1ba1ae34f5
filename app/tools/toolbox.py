"""All tools there are: looked up, offered to answers, and run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Signal

from app.engine_link.background import BackgroundQueue, in_background
from app.history import StoredMessage
from app.notices import report, tell
from app.session.calls import CHANGED, NO_OBJECT, TURNED_OFF
from app.tools.entry import Cancel, ToolEntry, ToolResult
from engine.errors import UserFixable
from engine.language import tr
from engine.request import ToolCall, ToolChoice

if TYPE_CHECKING:
    from app.tools.connections import Connections, ServerPatience
    from app.tools.kept import KeptTools
    from app.tools.server import McpServer
    from app.tools.tool_thread import ToolThread

CALCULATOR: Final = "calculator"


class Toolbox(QObject):
    """The built-in tools, those of servers that are on, and the permissions that are kept.

    Nothing of a server starts, and nothing is sent to it, before it is tried by the user or a call
    of its tools is allowed.

    Args:
        path: file of what is kept.
        patience: how long to wait for servers.
    """

    changed = Signal()

    def __init__(
        self, path: Path, parent: QObject | None = None, patience: ServerPatience | None = None
    ) -> None:
        super().__init__(parent)
        self._path, self._patience = path, patience
        self._sealing: dict[str, McpServer] = {}
        """Servers whose values are on their way into the keyring; the file waits for that."""

    @cached_property
    def _kept(self) -> KeptTools:
        """Return what is kept. Most starts never need it, so it is read at its first use."""
        from app.tools.kept import KeptTools, read

        try:
            return read(self._path)
        except OSError as error:
            report(
                UserFixable(
                    tr("The settings of tools could not be read."),
                    tr("Make the file {file} readable for your user.").format(file=self._path),
                    str(error),
                )
            )
            return KeptTools()

    @cached_property
    def _talk(self) -> tuple[ToolThread, Connections]:
        """The thread for servers, and its connections."""
        from app.tools.connections import Connections
        from app.tools.tool_thread import ToolThread

        return ToolThread(), Connections(self._patience)

    @cached_property
    def entries(self) -> tuple[ToolEntry, ...]:
        """Every tool that can be chosen, in the order in which they are shown."""
        from app.session.file_parts import FILES, READ_FILE_TOOL
        from app.tools.calculator import CALCULATOR_TOOL

        built_in = (
            ToolEntry(
                CALCULATOR,
                CALCULATOR_TOOL,
                tr("Calculator"),
                about=tr("Calculates sums, powers, roots and the like."),
            ),
            ToolEntry(
                FILES,
                READ_FILE_TOOL,
                tr("Read attached files"),
                about=tr("Reads and searches attached files that are too long to go along whole."),
            ),
        )
        on = (server for server in self.servers if server.enabled)
        return (*built_in, *(entry for server in on for entry in entries_of(server)))

    # -- servers ---------------------------------------------------------------------------

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """Return all servers, in the order in which they were added."""
        return self._kept.servers

    def server(self, name: str) -> McpServer | None:
        """Return the server of a name."""
        return self._kept.server(name)

    def keep(self, server: McpServer) -> None:
        """Keep a server; one of its name is replaced, and its connection ended."""
        from app.tools.sealing import has_secrets, sealed

        before = self.server(server.name)
        self._disconnect(server.name)
        if has_secrets(server):
            self._sealing[server.name] = server
            work = partial(sealed, server, before)
            self._keyring.do(work, self._sealed, partial(self._not_sealed, server))
        elif before is not None and before.sealed:
            server = replace(server, sealed=bool(server.variables or server.headers))
        self._keep(self._kept.having(server))

    @cached_property
    def _keyring(self) -> BackgroundQueue:
        return BackgroundQueue(self)

    def _sealed(self, server: McpServer) -> None:
        """Take a server whose values the keyring has, or will never have."""
        self._sealing.pop(server.name, None)
        if (now := self.server(server.name)) is None:
            self._forget(server.name)
            return
        values = replace(
            now, variables=server.variables, headers=server.headers, sealed=server.sealed
        )
        self._kept = self._kept.having(values)
        self._write()
        if not server.sealed:
            tell(
                tr("This computer has no keyring: the values are in a file that only you can read.")
            )

    def _not_sealed(self, server: McpServer, error: Exception) -> None:
        """Keep in the file what was entered: the keyring does not tell the rest."""
        self._sealing.pop(server.name, None)
        self._write()
        if not isinstance(error, UserFixable):
            raise error
        report(error)

    def _forget(self, name: str) -> None:
        from app.tools.sealing import forget

        self._keyring.do(partial(forget, name))

    def remove(self, name: str) -> None:
        """Forget a server, and end it."""
        self._disconnect(name)
        if (server := self.server(name)) is not None and server.sealed:
            self._forget(name)
        self._keep(self._kept.without(name))

    def turn_on(self, server: McpServer) -> None:
        """Let conversations use a server, with the tools that it told of; it stays connected."""
        self._keep_tools(server, enabled=True)

    def _keep_tools(self, told: McpServer, *, enabled: bool) -> None:
        """Keep the tools that a server told of; its values may have moved meanwhile."""
        now = self.server(told.name) or told
        self._keep(self._kept.having(replace(now, enabled=enabled, tools=told.tools)))

    def turn_off(self, name: str) -> None:
        """Use a server no longer, and end it."""
        if (server := self.server(name)) is not None:
            self._disconnect(name)
            self._keep(self._kept.having(replace(server, enabled=False)))

    def try_out(
        self,
        server: McpServer,
        done: Callable[[McpServer], None],
        failed: Callable[[Exception], None],
        owner: QObject,
    ) -> Cancel:
        """Start or reach a server and ask for its tools; returns what calls that off.

        Args:
            server: the server.
            done: gets the server with its tools; it is not kept by that.
            failed: gets the reason, in words.
            owner: who wants to know.
        """
        thread, connections = self._talk
        return thread.run(
            owner,
            connections.tools(server),
            lambda tools: done(server.with_tools(tools)),
            failed,
        )

    def _disconnect(self, name: str) -> None:
        if "_talk" in self.__dict__:
            thread, connections = self._talk
            thread.run(self, connections.drop(name), _ignore, _ignore)

    def close(self) -> None:
        """End all servers."""
        if self._sealing:  # nobody will hear of the keyring any more
            self._sealing.clear()
            self._write()
        if "_talk" in self.__dict__:
            thread, connections = self._talk
            thread.close(connections.close)

    def chosen(self, keys: Sequence[str]) -> tuple[ToolEntry, ...]:
        """Return the tools of these keys that there are, each under a name of its own."""
        if not keys:
            return ()
        wanted, names = set(keys), set[str]()
        found: list[ToolEntry] = []
        for entry in self.entries:
            if entry.key not in wanted:
                continue
            name, number = entry.tool.name, 2
            while name in names:
                name = f"{entry.tool.name}_{number}"
                number += 1
            names.add(name)
            found.append(replace(entry, tool=replace(entry.tool, name=name)))
        return tuple(found)

    def choice(self, keys: Sequence[str]) -> ToolChoice:
        """Return what is offered to an answer."""
        return ToolChoice(tuple(entry.tool for entry in self.chosen(keys)))

    # -- permissions -----------------------------------------------------------------------

    def allowed(self, entry: ToolEntry) -> bool:
        """Tell whether a tool may run in every chat."""
        from app.tools.kept import Permission

        return Permission(entry.digest) in self._kept.always

    def allow(self, entry: ToolEntry, *, always: bool) -> None:
        """Let a tool run in every chat from now on, or no longer."""
        from app.tools.kept import Permission

        one = {Permission(entry.digest)}
        others = self._kept.always - one
        self._keep(replace(self._kept, always=others | one if always else others))

    def _keep(self, new: KeptTools) -> None:
        if new != self._kept:
            self._kept = new
            self._write()

    def _write(self) -> None:
        """Write what is kept, once the keyring has taken what belongs there."""
        from app.tools.kept import write

        self.__dict__.pop("entries", None)
        try:
            if not self._sealing:
                write(self._path, self._kept)
        except OSError as error:
            report(
                UserFixable(
                    tr("The settings of tools could not be saved."),
                    tr("Check that the drive has room and can be written to."),
                    str(error),
                )
            )
        self.changed.emit()

    # -- running ---------------------------------------------------------------------------

    def run(
        self,
        entry: ToolEntry,
        call: ToolCall,
        messages: Sequence[StoredMessage],
        done: Callable[[ToolResult], None],
        owner: QObject,
    ) -> Cancel:
        """Run a tool beside the window; returns what calls that off.

        Args:
            entry: the tool.
            call: its arguments.
            messages: of the conversation.
            done: gets the result, in the window's thread, unless `owner` is gone.
            owner: who wants it.
        """
        arguments = _arguments(call)
        if arguments is None:
            done(ToolResult(NO_OBJECT, failed=True))
            return lambda: None
        if entry.source:
            return self._call(entry, arguments, done, owner)
        work = partial(_built_in, entry.key, arguments, tuple(messages))
        in_background(owner, work, done, lambda error: done(ToolResult(str(error), failed=True)))
        return lambda: None

    def _call(
        self,
        entry: ToolEntry,
        arguments: dict[str, object],
        done: Callable[[ToolResult], None],
        owner: QObject,
    ) -> Cancel:
        server = self.server(entry.source)
        names = {} if server is None else {f"{server.name}/{t.name}": t for t in server.tools}
        tool = names.get(entry.key)
        if server is None or tool is None or not server.enabled:
            done(ToolResult(TURNED_OFF, failed=True))
            return lambda: None

        from app.tools.connections import ToolsChanged

        def failed(error: Exception) -> None:
            if isinstance(error, ToolsChanged):
                self._keep_tools(server.with_tools(error.tools), enabled=server.enabled)
                done(ToolResult(CHANGED, failed=True))
            else:
                done(ToolResult(str(error), failed=True))

        thread, connections = self._talk
        return thread.run(owner, connections.call(server, tool, arguments), done, failed)


def _ignore(_: object) -> None:
    """Whatever comes of it."""


def entries_of(server: McpServer) -> tuple[ToolEntry, ...]:
    """Return the tools of a server as conversations choose them."""
    return tuple(
        ToolEntry(
            f"{server.name}/{tool.name}",
            tool.offered(),
            tool.label,
            server.name,
            server.identity,
        )
        for tool in server.tools
    )


def _built_in(
    key: str, arguments: dict[str, object], messages: Sequence[StoredMessage]
) -> ToolResult:
    from app.session.file_parts import NoSuchPart, read_part
    from app.tools.calculator import BadExpression, calculate

    try:
        if key == CALCULATOR:
            expression = str(arguments.get("expression", ""))
            return ToolResult(f"{expression} = {calculate(expression)}")
        part = arguments.get("part", 1)
        number = part if isinstance(part, int) else 1
        file, search = str(arguments.get("file", "")), str(arguments.get("search") or "")
        return ToolResult(read_part(messages, file, search, number))
    except (BadExpression, NoSuchPart) as error:
        return ToolResult(str(error), failed=True)


def _arguments(call: ToolCall) -> dict[str, object] | None:
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
