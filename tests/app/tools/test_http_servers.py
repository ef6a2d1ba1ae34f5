"""MCP servers at addresses: a real one on loopback, and others that do what they should not."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.tools import http_transport
from app.tools.connections import Connections, ServerPatience
from app.tools.server import KnownTool, McpServer
from engine.errors import UserFixable

HERE = Path(__file__).parent
PATIENCE = ServerPatience(ready=60.0, result=60.0)
ECHO = KnownTool("echo", "", "Says it again.", '{"type": "object"}')


def run(work: Callable[[Connections], Any], patience: ServerPatience = PATIENCE) -> None:
    async def inside() -> None:
        connections = Connections(patience)
        try:
            await asyncio.wait_for(work(connections), 120)
        finally:
            await connections.close()

    asyncio.run(inside())


@pytest.fixture(scope="module")
def sdk_server() -> Iterator[str]:
    """A server of the SDK's at a free port."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(HERE / "mcp_server_child.py"), str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                assert process.poll() is None
                with closing(socket.socket()) as tried:
                    if tried.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def test_a_server_made_with_the_sdk(sdk_server: str) -> None:
    server = McpServer("there", url=sdk_server)

    async def work(connections: Connections) -> None:
        tools = await connections.tools(server)
        assert [each.name for each in tools] == ["add", "refuse"]
        told = await connections.call(server, tools[0], {"a": 40, "b": 2})
        assert (told.text, told.failed) == ("42", False)
        assert (await connections.call(server, tools[1], {})).failed

    run(work)


class Rough(BaseHTTPRequestHandler):
    """A server of a few lines; `how` says what it does wrong with the call."""

    how = ""
    seen: list[tuple[str, dict[str, str]]]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET  # noqa: N815

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        type(self).seen.append((self.path, headers))
        if self.how.startswith("redirect "):
            self.send_response(307)
            self.send_header("location", self.how.partition(" ")[2])
            self.send_header("content-length", "0")
            self.end_headers()
            return
        asked = json.loads(body)
        if "id" not in asked:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self._answer({"jsonrpc": "2.0", "id": asked["id"], **self._told(asked)})

    def _told(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["method"]:
            case "initialize":
                told = {"protocolVersion": asked["params"]["protocolVersion"]}
                about = {"name": "rough", "version": "1"}
                return {"result": told | {"capabilities": {"tools": {}}, "serverInfo": about}}
            case "tools/list":
                tool = {"name": "echo", "description": ECHO.description}
                return {"result": {"tools": [tool | {"inputSchema": {"type": "object"}}]}}
            case "tools/call":
                return {"result": {"content": [{"type": "text", "text": "x" * 100}]}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def _answer(self, told: dict[str, Any]) -> None:
        data, packed = json.dumps(told).encode(), self.how == "gzip"
        called = "content" in told.get("result", {})
        data = gzip.compress(data) if packed else data
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if packed:
            self.send_header("content-encoding", "gzip")
        if called and self.how == "endless":
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" " * 65536)
            except OSError:
                return
        if called and self.how == "nonsense":
            data = b"<html>Not at all</html>"
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def rough(how: str) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Such a server, and the requests that it saw."""
    seen: list[tuple[str, dict[str, str]]] = []
    handler = type("Handler", (Rough,), {"how": how, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", seen
        finally:
            server.shutdown()


def test_headers_go_along_and_compression_is_not_asked_for() -> None:
    with rough("") as (url, seen):
        server = McpServer("there", url=url, headers=(("Authorization", "Bearer abc"),))

        async def work(connections: Connections) -> None:
            told = await connections.call(server, ECHO, {})
            assert told.text == "x" * 100

        run(work)
    assert all(headers["authorization"] == "Bearer abc" for _, headers in seen)
    assert all(headers["accept-encoding"] == "identity" for _, headers in seen)


def test_a_redirect_to_another_address_is_not_followed() -> None:
    with rough("") as (elsewhere, seen), rough(f"redirect {elsewhere}") as (url, _):
        server = McpServer("there", url=url, headers=(("Authorization", "Bearer abc"),))

        async def work(connections: Connections) -> None:
            with pytest.raises(UserFixable):
                await connections.tools(server)

        run(work)
    assert seen == []


@pytest.mark.parametrize("how", ["endless", "nonsense", "gzip"])
def test_what_a_server_does_wrong_is_told(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "MOST_BYTES", 1 << 20)
    with rough(how) as (url, _):
        server = McpServer("there", url=url)

        async def work(connections: Connections) -> None:
            told = await connections.call(server, ECHO, {})
            assert told.failed
            assert "there" in told.text

        run(work)


def test_nobody_there_is_told() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        server = McpServer("there", url=f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")

        async def work(connections: Connections) -> None:
            with pytest.raises(UserFixable, match="failed"):
                await connections.tools(server)

        run(work)
