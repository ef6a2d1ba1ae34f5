"""The file of tools, which only its owner can read: servers may need secrets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from app.tools.server import KnownTool, McpServer
from engine.errors import UserFixable
from engine.typed_json import WrongMember, decoded, encoded

_MOST_BYTES = 16 * 2**20
_MOST_PERMISSIONS = 10_000
_MOST_SERVERS = 100


@dataclass(frozen=True, slots=True)
class KeptTools:
    """The kept part of tools.

    Attributes:
        always: digests of the tools that may run in every chat.
        servers: in the order in which they were added.
    """

    always: frozenset[str] = frozenset()
    servers: tuple[McpServer, ...] = ()

    def server(self, name: str) -> McpServer | None:
        """Return the server of a name."""
        return next((each for each in self.servers if each.name == name), None)

    def having(self, server: McpServer) -> KeptTools:
        """Return it with a server, in the place of the one of its name."""
        if self.server(server.name) is None:
            return replace(self, servers=(*self.servers, server))
        same = (server if each.name == server.name else each for each in self.servers)
        return replace(self, servers=tuple(same))

    def without(self, name: str) -> KeptTools:
        """Return it without a server."""
        return replace(self, servers=tuple(s for s in self.servers if s.name != name))


def read(path: Path) -> KeptTools:
    """Return what is kept; nothing where the file is missing, or makes no sense."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return KeptTools()
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return KeptTools()
    if not isinstance(told, dict):
        return KeptTools()
    always = told.get("always")
    allowed = [each for each in always if isinstance(each, str)] if isinstance(always, list) else []
    servers = told.get("servers")
    kept = KeptTools(frozenset(allowed[:_MOST_PERMISSIONS]))
    for entry in servers[:_MOST_SERVERS] if isinstance(servers, list) else ():
        with suppress(UserFixable, WrongMember):
            kept = kept.having(_server(entry))
    return kept


def _server(entry: object) -> McpServer:
    """Return a server as it is kept."""
    told = dict(entry) if isinstance(entry, Mapping) else {}
    known = tuple(decoded(KnownTool, each, "tool") for each in told.get("tools") or ())
    server = McpServer(
        str(told.get("name") or ""),
        tuple(map(str, told.get("command") or ())),
        _pairs(told.get("variables")),
        str(told.get("folder") or ""),
        str(told.get("url") or ""),
        _pairs(told.get("headers")),
        told.get("enabled") is True,
    )
    return server.with_tools(known)


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple((str(k), str(v)) for k, v in value.items()) if isinstance(value, Mapping) else ()


def write(path: Path, kept: KeptTools) -> None:
    """Keep it, in place of what was there.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    servers = [
        {
            "name": each.name,
            "command": list(each.command),
            "variables": dict(each.variables),
            "folder": each.folder,
            "url": each.url,
            "headers": dict(each.headers),
            "enabled": each.enabled,
            "tools": encoded(each.tools),
        }
        for each in kept.servers
    ]
    told = {"always": sorted(kept.always), "servers": servers}
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 600
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
