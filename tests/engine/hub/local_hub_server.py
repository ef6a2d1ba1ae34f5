"""The requests of `local_hub`: files with redirects and ranges, and the part of the API in use."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from local_hub import Act, Answer, Asked, Published, etag, is_large
from local_hub_api import details, search

if TYPE_CHECKING:
    from local_hub import LocalHub

_PIECE = 16 << 10
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_CDN = re.compile(r"/cdn/([^/]+/[^/]+)/([^/]+)/(.+)")
_MODEL = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")


class Handler(BaseHTTPRequestHandler):
    """One connection; as the real one it is kept for several requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    @property
    def hub(self) -> LocalHub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        self.hub.asked.append(Asked(self.command, self.path, dict(self.headers.items())))
        split = urlsplit(self.path)
        path, query = unquote(split.path), parse_qs(split.query)
        answer = self.hub.take_answer(self.command, path)
        if answer is not None:
            self._stand_in(answer)
        elif found := _CDN.fullmatch(path):
            self._cdn(*found.groups())
        elif found := _FILE.fullmatch(path):
            self._file(*found.groups())
        elif found := _MODEL.fullmatch(path):
            self._model(found[1], found[2], query)
        elif path == "/api/models":
            self._json(search(self.hub.repositories(), query))
        elif path == "/api/whoami-v2":
            self._who()
        else:
            self._refuse(404, "", "Not here")

    def _stand_in(self, answer: Answer) -> None:
        answer.wait()
        if answer.status:
            self._send(answer.status, answer.headers, answer.body)
        else:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _who(self) -> None:
        if self._token() in self.hub.tokens:
            self._json({"type": "user", "name": "somebody", "auth": {"type": "access_token"}})
        else:
            self._refuse(401, "", "Invalid credentials in Authorization header")

    def _model(self, name: str, revision: str | None, query: dict[str, list[str]]) -> None:
        repository = self._known(name, revision)
        if repository is not None:
            self._json(details(repository, query))

    def _file(self, name: str, revision: str, path: str) -> None:
        repository = self._known(name, revision)
        if repository is None or not self._let_in(repository):
            return
        if path not in repository.files:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        data = repository.files[path]
        tag = etag(path, data)
        headers = {"X-Repo-Commit": repository.revision, "ETag": f'"{tag}"'}
        if not is_large(path):
            self._body(repository, path, headers)
            return
        headers |= {
            "X-Linked-Size": str(len(data)),
            "X-Linked-ETag": f'"{tag}"',
            "Location": f"{self.hub.cdn}/cdn/{name}/{tag}/{path}?signed=yes",
        }
        self._send(302, headers, b"Found")

    def _cdn(self, name: str, tag: str, path: str) -> None:
        repository = self.hub.repository(name)
        if repository is None or path not in repository.files:
            self._refuse(404, "", "No such key")
        elif self.headers["Authorization"]:
            self._refuse(400, "", "Only one way to say who one is")
        else:
            own = hashlib.md5(repository.files[path], usedforsecurity=False).hexdigest()
            self._body(repository, path, {"ETag": f'"{own}"', "X-Linked": tag})

    def _body(self, repository: Published, path: str, headers: dict[str, str]) -> None:
        data = repository.files[path]
        start, end, status = 0, len(data), 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if wanted and self.hub.takes_ranges:
            start, status = int(wanted[1]), 206
            end = min(end, int(wanted[2]) + 1) if wanted[2] else end
            if start >= len(data):
                self._send(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._begin(status, {**headers, "Accept-Ranges": "bytes"}, end - start)
        if self.command == "GET":
            self._pieces(f"{repository.name}/{path}", path, data, start, end)

    def _pieces(self, key: str, path: str, data: bytes, start: int, end: int) -> None:
        while start < end:
            stop = min(end, start + _PIECE)
            trap = self.hub.take_trap(path, start, stop)
            before = data[start : trap.at if trap else stop]
            self._write(key, before)
            start += len(before)
            if trap is None:
                continue
            trap.reached.set()
            if trap.act in (Act.HOLD, Act.HANG):
                trap.wait()
            elif trap.act is Act.SPOIL:
                self._write(key, bytes([data[start] ^ 1]))
                start += 1
            if trap.act in (Act.DROP, Act.HANG):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return

    def _write(self, key: str, piece: bytes) -> None:
        self.hub.count(key, len(piece))  # first: who has got it may ask at once
        self.wfile.write(piece)
        self.wfile.flush()

    def _token(self) -> str | None:
        given = self.headers["Authorization"]
        return given.removeprefix("Bearer ") if given else None

    def _known(self, name: str, revision: str | None) -> Published | None:
        """The repository, as far as whoever asks may know of it; else None, and it is said."""
        token = self._token()
        if token is not None and token not in self.hub.tokens:
            self._refuse(401, "", "Invalid credentials in Authorization header")
            return None
        repository = self.hub.repository(name)
        hidden = repository is not None and repository.private
        if repository is None or (hidden and name not in self.hub.tokens.get(token or "", ())):
            self._refuse(404 if token else 401, "RepoNotFound", "Repository not found")
            return None
        if revision not in (None, "main", repository.revision):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repository

    def _let_in(self, repository: Published) -> bool:
        token = self._token()
        if not repository.gated or repository.name in self.hub.tokens.get(token or "", ()):
            return True
        message = f"Access to model {repository.name} is restricted."
        self._refuse(403 if token else 401, "GatedRepo", message)
        return False

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(status, headers, json.dumps({"error": message}).encode())

    def _json(self, told: object) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(told).encode())

    def _send(self, status: int, headers: object, body: bytes) -> None:
        self._begin(status, dict(headers), len(body))  # type: ignore[call-overload]
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def _begin(self, status: int, headers: dict[str, str], length: int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
