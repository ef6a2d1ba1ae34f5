"""The file of tools, which only its owner can read: servers may need secrets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from app.tools.server import McpServer
from engine.kept_files import read_list, write_json
from engine.typed_json import encoded


@dataclass(frozen=True, slots=True)
class Permission:
    """A tool that may run in every chat, by its digest (`ToolEntry.digest`)."""

    digest: str


@dataclass(frozen=True, slots=True)
class KeptTools:
    """The kept part of tools.

    Attributes:
        always: the tools that may run in every chat.
        servers: in the order in which they were added.
    """

    always: frozenset[Permission] = frozenset()
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
    """Return what is kept; a damaged file stays beside it as `*.bad`.

    Raises:
        OSError: the file is there and cannot be opened.
    """
    kept = KeptTools(frozenset(read_list(path, "always", Permission)))
    for server in read_list(path, "servers", McpServer):
        kept = kept.having(server.with_tools(server.tools))
    return kept


def write(path: Path, kept: KeptTools) -> None:
    """Keep it, in place of what was there.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    always = sorted(each.digest for each in kept.always)
    told = {
        "always": [encoded(Permission(each)) for each in always],
        "servers": [encoded(each) for each in kept.servers],
    }
    write_json(path, told, private=True)
