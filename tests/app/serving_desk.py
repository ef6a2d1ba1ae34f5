"""A window that serves on a port of its own, and programs that use it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from desk import Desk

from app.serving.model_server import ModelServer, Opened, ServingState

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello, this is private."}]}


@dataclass(frozen=True)
class Client:
    """A program that uses the server."""

    port: int
    token: str

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def start(
        self,
        connection: http.client.HTTPConnection,
        body: object = None,
        path: str = CHAT,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a request and do not wait for its response."""
        usual = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        method = "GET" if body is None else "POST"
        raw = None if body is None else json.dumps(body)
        connection.request(method, path, raw, usual | dict(headers or {}))

    def status(self, body: object = None, path: str = CHAT, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(self.connect()) as connection:
            self.start(connection, body, path, named)
            return connection.getresponse().status

    def answer(self, body: object, path: str = CHAT) -> Any:
        with closing(self.connect()) as connection:
            self.start(connection, body, path)
            response = connection.getresponse()
            assert response.status == 200
            return json.load(response)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def serve(desk: Desk) -> ModelServer:
    """Switch the server on and wait until it listens."""
    server = desk.assembly.model_server
    desk.assembly.settings.change(serve=True, serve_port=free_port())
    desk.bot.waitUntil(lambda: server.state is ServingState.ON)
    return server


def opened(server: ModelServer) -> Opened:
    assert server.opened is not None
    return server.opened


def client(server: ModelServer) -> Client:
    found = opened(server)
    return Client(int(found.url.removesuffix("/v1").rpartition(":")[2]), found.token)
