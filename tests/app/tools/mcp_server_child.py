"""An MCP server made with the SDK: over its streams ("stdio"), or at a port."""

from __future__ import annotations

import sys

from mcp.server import MCPServer

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ValueError("It cannot be done.")


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
