"""MCP servers, which offer tools: programs on this computer, or addresses. Off until turned on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from app.tools.results import one_line
from engine.errors import UserFixable
from engine.language import tr
from engine.remote.address import ServerAddress
from engine.request import Tool

MOST_TOOLS = 256
"""Most tools of one server."""
_MOST_SCHEMA = 64 * 1024
_LONGEST = 4_000
_MOST_WORDS = 200
_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_FROM_USERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade"}
)
_UNSAFE = re.compile(r"[\0\r\n]")


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool that a server told of.

    Attributes:
        name: as the server calls it.
        title: for people.
        description: for the model.
        parameters: JSON schema of the arguments.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: str = '{"type": "object", "properties": {}}'

    @property
    def usable(self) -> bool:
        """True if models can be told of it."""
        if not self.name or len(self.parameters) > _MOST_SCHEMA:
            return False
        try:
            return isinstance(json.loads(self.parameters), dict)
        except (ValueError, RecursionError):
            return False

    @property
    def label(self) -> str:
        """Return its name for people."""
        return self.title or one_line(self.name, 80)

    def offered(self) -> Tool:
        """Return it as models are told: its name has letters, digits and signs only."""
        name = _NAME.sub("_", self.name)[:64] or "tool"
        return Tool(name, one_line(self.description, 2_000), self.parameters)


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server. It has a command, or an address.

    Attributes:
        name: unlike those of all others.
        command: a program and its arguments; no shell reads them.
        variables: of the program's environment, beside the usual ones.
        folder: that the program starts in; empty: the user's own.
        url: the address of a server that runs already.
        headers: that go along with each request.
        enabled: whether conversations may use it. Nothing of it starts before.
        tools: those that it told of last.
        sealed: whether values of variables and headers are in the keyring, and empty here.
    """

    name: str
    command: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    enabled: bool = False
    tools: tuple[KnownTool, ...] = ()
    sealed: bool = False

    def __post_init__(self) -> None:
        """Check what comes from users and files.

        Raises:
            UserFixable: it is no server.
        """
        if bool(self.command) == bool(self.url):
            raise _unusable(tr("A server needs either a command or an address."))
        words = (self.name, *self.command, self.folder, *(w for p in self.variables for w in p))
        long = max(map(len, words)) > _LONGEST or len(words) > _MOST_WORDS
        if long or any("\0" in word for word in words):
            raise _unusable(
                tr("The command is too long, or contains a character that commands cannot have.")
            )
        if not self.name.strip() or not self.name.isprintable() or "/" in self.name:
            raise _unusable(tr("A server needs a name, without a slash."))
        if self.command and not self.command[0].strip():
            raise _unusable(tr("The command is empty."))
        if any(not name or "=" in name for name, _ in self.variables):
            raise _unusable(tr("A variable needs a name, without “=”."))
        if self.url:
            _check_address(self.url)
        for name, value in self.headers:
            if name.lower() in _NOT_FROM_USERS:
                raise _unusable(tr("The header “{name}” cannot be set.").format(name=name))
            if re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) is None or _UNSAFE.search(value):
                raise _unusable(
                    tr("A header's name has letters, digits and “-” only; its value is one line.")
                )

    @property
    def identity(self) -> str:
        """Return what makes it this server, for permissions; values may be in the keyring."""
        names = [[name for name, _ in pairs] for pairs in (self.variables, self.headers)]
        return json.dumps([self.command, self.folder, self.url, names])

    @property
    def address(self) -> ServerAddress:
        """The address of one that has an address."""
        return ServerAddress(self.url)

    @property
    def place(self) -> str:
        """Return the whole command, or the address, to be read."""
        return self.url or shlex.join(self.command)

    def with_tools(self, tools: tuple[KnownTool, ...]) -> McpServer:
        """Return it with the tools that it told of."""
        usable = {tool.name: tool for tool in tools if tool.usable}
        return replace(self, tools=tuple(usable.values())[:MOST_TOOLS])


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    usable = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST
    if not usable or parts.scheme not in ("http", "https") or not host or parts.fragment:
        raise _unusable(tr("This address cannot be used."))
    if parts.username is not None or parts.password is not None:
        raise _unusable(tr("The address holds a user name or a password."))


def _unusable(cause: str) -> UserFixable:
    return UserFixable(
        cause,
        tr("Enter a command such as “npx -y some-server”, or an address like {address}.").format(
            address="http://127.0.0.1:8000/mcp"
        ),
    )


def servers_of(told: object) -> list[McpServer]:
    """Return the servers of the common JSON: `{"mcpServers": {"name": {"command": …}}}`.

    All of them are off, whatever it says.

    Raises:
        UserFixable: there is none, or one cannot be used.
    """
    holder = told if isinstance(told, Mapping) else {}
    named = next((holder[key] for key in ("mcpServers", "servers") if key in holder), None)
    if named is None and holder and all(isinstance(each, Mapping) for each in holder.values()):
        named = holder
    if not isinstance(named, Mapping) or not named:
        raise UserFixable(
            tr("There is no server in this text."),
            tr("Paste what the server's page shows, with “mcpServers” in it."),
        )
    return [_server(str(name), entry) for name, entry in named.items()]


def _server(name: str, entry: object) -> McpServer:
    if not isinstance(entry, Mapping):
        raise _unusable(tr("“{name}” does not describe a server.").format(name=one_line(name, 60)))
    command, arguments = entry.get("command"), entry.get("args") or []
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl") or ""
    folder = entry.get("cwd") or ""
    whole = isinstance(arguments, list) and all(isinstance(each, str) for each in arguments)
    texts = isinstance(url, str) and isinstance(folder, str)
    if not whole or not texts or not isinstance(command, str | None):
        raise _unusable(tr("“{name}” does not describe a server.").format(name=one_line(name, 60)))
    return McpServer(
        name.replace("/", "-").strip(),
        (command, *arguments) if command else (),
        _pairs(entry.get("env")),
        folder,
        url,
        _pairs(entry.get("headers")),
    )


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        return ()
    return tuple((str(k), str(v)) for k, v in value.items() if isinstance(v, str | int | float))
