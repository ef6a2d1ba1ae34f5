"""A real server on a real socket that sends exactly what a test wants, byte by byte."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

EVENTS = "text/event-stream"
_PATIENCE = 240.0
_HANDSHAKE = 0x16
"""First byte of an encrypted connection, which a server of http takes for nonsense."""


class HangUp(Exception):
    """Raised by a script: reset the connection now."""


@dataclass
class Heard:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Heard], Iterable[bytes]]


def head(status: int = 200, kind: str = EVENTS, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {kind}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def event(**chunk: object) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def said(text: str, reason: str | None = None, **more: object) -> bytes:
    """A chunk of an answer."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return event(choices=[choice], **more)


def page(status: int, body: object, **headers: str) -> list[bytes]:
    return [head(status, "application/json", **headers), json.dumps(body).encode()]


DONE = b"data: [DONE]\n\n"


@dataclass
class PlayedServer:
    """Serves one script for every path; `heard` are the requests so far."""

    script: Script
    certificate: Path | None = None
    heard: list[Heard] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    """Set when the client has closed a connection that something was still to be sent through."""

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._context: ssl.SSLContext | None = None
        if self.certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(self.certificate)
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            connection.settimeout(_PATIENCE)
            heard = _read(connection)
            if heard is None:
                return
            self.heard.append(heard)
            try:
                for piece in self.script(heard):
                    connection.sendall(piece)
            except HangUp:
                linger = b"\x01\0\0\0\0\0\0\0"
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except OSError:
                self.hung_up.set()

    @staticmethod
    def until_hung_up(send: bytes = b": still here\n\n") -> Iterator[bytes]:
        """Yield comments without an end: the client's going ends them."""
        while True:
            yield send
            sleep(0.01)


def _read(connection: socket.socket) -> Heard | None:
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            return None
        got += more
        if got[0] == _HANDSHAKE:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
    top, _, body = got.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Heard(method, path, headers, body)
