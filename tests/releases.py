"""A server that lists versions of Duotail and hands out their files, on this computer."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHANGELOG = "# Changelog\n\n## [3.0] - today\n\n- three\n\n## [2.0]\n\n- two\n\n## [1.0]\n\n- one\n"
FILE = b"the new version\n" * 9_000


class Releases(ThreadingHTTPServer):
    """Answers each path with what the test put there; counts what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, bytes] = {"/duotail-3.0.AppImage": FILE}
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/list.json"

    def publish(self, version: object, *, sha256: str = "", url: str = "") -> None:
        file = {
            "filename": "duotail-3.0.AppImage",
            "url": url or "duotail-3.0.AppImage",
            "size": len(FILE),
            "digests": {"sha256": sha256 or hashlib.sha256(FILE).hexdigest()},
        }
        listed = {"info": {"version": version, "description": CHANGELOG}, "urls": [file]}
        self.pages["/list.json"] = json.dumps(listed).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Releases

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        where, body = self.server.moved.get(self.path), self.server.pages.get(self.path)
        self.send_response(302 if where else 404 if body is None else 200)
        if where:
            self.send_header("location", where)
        self.send_header("content-length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def serving() -> Iterator[Releases]:
    """Serve until the block is left."""
    with Releases() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
