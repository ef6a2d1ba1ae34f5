"""An HTTP proxy on loopback that notes what passes through it."""

from __future__ import annotations

import http.client
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit


class LoopbackProxy:
    """Passes requests on until it is left as a context; `passed`: their addresses."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.passed = self.passed

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    passed: list[str]

    def server_bind(self) -> None:
        """Without asking for the computer's name, which may ask a network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self._pass()

    def do_GET(self) -> None:
        self._pass()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _pass(self) -> None:
        self.server.passed.append(self.path)  # type: ignore[attr-defined]
        where = urlsplit(self.path)
        server = http.client.HTTPConnection(where.netloc, timeout=240)
        try:
            server.request(self.command, f"{where.path}?{where.query}", headers=dict(self.headers))
            answer = server.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.read())
        finally:
            server.close()
