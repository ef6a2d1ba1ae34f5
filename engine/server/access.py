"""Who may ask at all: the checks before anything of a request is read.

A web page that the user visits must not reach the model: not by a name that it points to this
computer (`Host`), not from its own origin (`Origin`), and not with a form, whose content is never
JSON. Programs have to know the token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections import deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from time import monotonic

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.api_error import ApiError
from engine.server.origins import EVERY, plain_origin
from engine.server.settings import ServerSettings

PUBLIC = frozenset({"/health"})
"""Paths that need no token, and tell nothing."""
_FREE_GUESSES, _WINDOW_S, _DELAY_S = 10, 60.0, 1.0
"""Wrong tokens in a while that are refused at once, and how long the next ones take."""
_PRIVATE = (".internal", ".local", ".lan", ".home.arpa", ".ts.net")
"""Ends of names that a network gives itself, as Docker, routers and Tailscale do."""
_HOST_REFUSED = (
    "Requests for this host name are not accepted. If it is this computer's, add it to the host "
    "names in Duotail's settings, or start `duotail serve` with --allow-host NAME."
)
_HEADERS = "authorization, content-type, x-api-key"
_METHODS = "GET, HEAD, POST, OPTIONS"
_EXPOSED = b"retry-after, www-authenticate, content-length, date"

Refuse = Callable[[Scope, Receive, Send, ApiError], Awaitable[None]]


class AccessMiddleware:
    """Lets requests through to an application, or refuses them.

    Args:
        app: what answers.
        settings: who may ask.
        refuse: answers a refused request.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, refuse: Refuse) -> None:
        self._app, self._settings, self._refuse = app, settings, refuse
        self._hosts = settings.allowed_hosts()
        self._token = None if settings.token is None else _digest(settings.token)
        self._wrong: deque[float] = deque(maxlen=_FREE_GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            self._check_host(headers)
            self._check_origin(headers)
            if origin is not None:
                send = _shared(send, origin)
            if origin is not None and scope["method"] == "OPTIONS":
                await _answer_preflight(headers, send)
                return
            if scope["path"] not in PUBLIC:
                await self._check_token(headers)
            if scope["method"] == "POST":
                self._check_body(scope["path"], headers)
        except ApiError as error:
            await self._refuse(scope, receive, send, error)
            return
        await self._app(scope, _Body(receive, self._settings).receive, send)

    def _check_host(self, headers: Headers) -> None:
        """Refuse names that are not the server's: the page behind one could point it here."""
        named = headers.getlist("host")
        host = _host_of(named[0]) if len(named) == 1 else ""
        # Nobody can register a name under these, and a page does not know the token.
        private = self._token is not None and host.endswith(_PRIVATE)
        if host not in self._hosts and not private:
            raise ApiError(403, _HOST_REFUSED, code="host_not_allowed")

    def _check_origin(self, headers: Headers) -> None:
        """Refuse web pages that the user has not allowed."""
        allowed = set(map(plain_origin, self._settings.origins))
        named = map(plain_origin, headers.getlist("origin"))
        if EVERY not in allowed and any(each not in allowed for each in named):
            raise ApiError(
                403, "Requests from this origin are not accepted.", code="origin_not_allowed"
            )

    async def _check_token(self, headers: Headers) -> None:
        """Refuse requests without the token; after many wrong ones, slowly.

        Its digest is compared, in constant time: the time tells neither its length nor its
        beginning.
        """
        if self._token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = headers.get("x-api-key", "")
        if hmac.compare_digest(_digest(given.strip()), self._token):
            return
        now = monotonic()
        often = len(self._wrong) == _FREE_GUESSES and now - self._wrong[0] < _WINDOW_S
        self._wrong.append(now)
        if often:
            await asyncio.sleep(_DELAY_S)
        raise ApiError(401, "The access token is missing or wrong.", code="invalid_api_key")

    def _check_body(self, path: str, headers: Headers) -> None:
        """Refuse what a web page's form could send, and what is announced as too long."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # Some of Ollama's clients say nothing; forms always do, and pages have an origin.
        silent = path.startswith("/api/") and "content-type" not in headers
        if kind != "application/json" and not silent:
            raise ApiError(415, "The content type must be application/json.")
        said = headers.get("content-length", "0")
        if (
            not (said.isascii() and said.isdigit())
            or int(said[:20]) > self._settings.max_body_bytes
        ):
            raise too_long(self._settings.max_body_bytes)


class _Body:
    """Counts what arrives of a body, and how long that takes."""

    def __init__(self, receive: Receive, settings: ServerSettings) -> None:
        self._receive, self._most = receive, settings.max_body_bytes
        self._end = monotonic() + settings.body_timeout
        self._seen = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next message. Raises ApiError where it is too much, or too slow."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._end - monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "The request took too long to arrive.") from None
        self._seen += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._seen > self._most:
            raise too_long(self._most)
        return message


def too_long(most: int) -> ApiError:
    """Return the error for a body of more bytes than are taken."""
    return ApiError(413, f"A request has at most {most} bytes.", code="request_too_large")


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _host_of(header: str) -> str:
    """Return the name in a Host header, without its port."""
    name, colon, port = header.strip().lower().rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        name = header.strip().lower()
    if name.startswith("[") and name.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(name[1:-1]))
        except ValueError:
            return name
    return name


def _shared(send: Send, origin: str) -> Send:
    """Return what sends a response with the header that lets an allowed page read it."""
    extra = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]

    async def share(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return share


async def _answer_preflight(request: Headers, send: Send) -> None:
    """Let an allowed page send its headers: clients add many of their own."""
    wanted = request.get("access-control-request-headers", _HEADERS)
    headers = [
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-allow-private-network", b"true"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
