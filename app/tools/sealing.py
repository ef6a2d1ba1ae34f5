"""Variables and keys of MCP servers: in the system's keyring, as keys of servers with models are.

The file of tools then holds their names only. Where there is no keyring, it holds them, too: only
its owner can read it. A keyring may ask the user to unlock it: not to be used in the window's
thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from app.tools.server import McpServer
from engine.errors import UserFixable
from engine.language import tr
from engine.machine.keyring import forget_secret, keep_secret, kept_secret

_Pairs = tuple[tuple[str, str], ...]


def has_secrets(server: McpServer) -> bool:
    """Return whether a server has values that are not in the keyring yet."""
    return any(value for _, value in (*server.variables, *server.headers))


def sealed(server: McpServer, before: McpServer | None) -> McpServer:
    """Put a server's values into the keyring; returns it without them.

    Where there is no keyring, the server comes back with all its values.

    Args:
        server: with its values; one that is empty stays as it was.
        before: the server that it takes the place of.
    """
    whole = server
    if before is not None:
        known = unsealed(before)
        whole = replace(
            server,
            variables=_filled(server.variables, known.variables),
            headers=_filled(server.headers, known.headers),
        )
    told = json.dumps({"variables": whole.variables, "headers": whole.headers})
    if not keep_secret(_name(server.name), told):
        return replace(whole, sealed=False)
    return replace(
        whole, variables=_emptied(whole.variables), headers=_emptied(whole.headers), sealed=True
    )


def unsealed(server: McpServer) -> McpServer:
    """Return a server with its values.

    Raises:
        UserFixable: the keyring does not tell them.
    """
    if not server.sealed:
        return server
    told = kept_secret(_name(server.name))
    try:
        values = json.loads(told or "")
        known = {
            kind: {str(n): str(v) for n, v in values[kind]} for kind in ("variables", "headers")
        }
    except (ValueError, TypeError, KeyError):
        raise UserFixable(
            tr("The keyring does not return the variables and the key of “{name}”.").format(
                name=server.name
            ),
            tr("Unlock it, or enter them again in the settings, under Tools."),
        ) from None
    return replace(
        server,
        variables=tuple((n, known["variables"].get(n, v)) for n, v in server.variables),
        headers=tuple((n, known["headers"].get(n, v)) for n, v in server.headers),
        sealed=False,
    )


def forget(name: str) -> None:
    """Take the values of a server out of the keyring."""
    forget_secret(_name(name))


def _filled(pairs: _Pairs, known: Iterable[tuple[str, str]]) -> _Pairs:
    values = dict(known)
    return tuple((name, value or values.get(name, "")) for name, value in pairs)


def _emptied(pairs: _Pairs) -> _Pairs:
    return tuple((name, "") for name, _ in pairs)


def _name(server: str) -> str:
    return f"tool server {server}"
