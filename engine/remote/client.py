"""The connection to a server: which models it has, and an answer as it comes.

Each request has a connection of its own, which ends with it. Redirects are not followed: what a
user writes goes to the address that they entered, and to no other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from ssl import SSLContext
from typing import TYPE_CHECKING

from engine.errors import UserFixable
from engine.language import tr
from engine.remote import trouble
from engine.remote.address import ServerAddress
from engine.remote.calls import Json
from engine.remote.catalogue import Catalogue
from engine.remote.stream import (
    DONE,
    BadStream,
    Chunk,
    EventStream,
    ServerSaid,
    error_message,
    read_chunk,
)

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 64 << 20
"""Most bytes of one answer: a hundred thousand tokens, each in an event of its own."""
_MOST_OF_A_PAGE = 4 << 20
_EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server, in seconds.

    Attributes:
        connect: for the connection.
        first: for the first text of an answer; a server may load its model first.
        between: for more text.
        page: for the list of models.
    """

    connect: float = 10.0
    first: float = 300.0
    between: float = 60.0
    page: float = 20.0


class ServerClient:
    """Asks one server.

    Args:
        address: where it is.
        key: goes along as a bearer token; None: none.
        patience: how long to wait for it.
    """

    def __init__(
        self, address: ServerAddress, key: str | None, patience: Patience | None = None
    ) -> None:
        self._address, self._key = address, key
        self._patience = patience or Patience()

    async def catalogue(self) -> Catalogue:
        """Ask which models there are.

        Raises:
            UserFixable: it cannot tell, in words.
        """
        host = self._address.host
        try:
            async with asyncio.timeout(self._patience.page + self._patience.connect):
                async with self._request("GET", "/models") as response:
                    page = await _page(response, host)
        except TimeoutError:
            raise trouble.silent(host, begun=False) from None
        try:
            catalogue = Catalogue.read(json.loads(page))
        except (ValueError, RecursionError) as error:
            raise trouble.not_a_server(host, f"{error}\n{page[:500]!r}") from None
        if not catalogue.models:
            raise UserFixable(
                tr("{host} has no model that can chat.").format(host=host),
                tr("Load a model there, then test again."),
            )
        return catalogue

    async def answer(self, body: Json) -> AsyncGenerator[Chunk]:
        """Ask for an answer and yield what comes of it, until it is complete.

        Raises:
            UserFixable: it did not become complete, in words.
        """
        host, begun = self._address.host, False
        try:
            async with asyncio.timeout(self._patience.connect + self._patience.first) as limit:
                async with (
                    self._request("POST", "/chat/completions", body) as response,
                    aclosing(self._chunks(response)) as chunks,
                ):
                    until = limit.when()
                    async for chunk in chunks:
                        begun |= bool(chunk.said or chunk.thought or chunk.calls)
                        limit.reschedule(None)
                        yield chunk
                        if begun:  # some tell who speaks before they read the prompt
                            until = asyncio.get_running_loop().time() + self._patience.between
                        limit.reschedule(until)
        except TimeoutError:
            raise trouble.silent(host, begun=begun) from None

    async def _chunks(self, response: httpx2.Response) -> AsyncGenerator[Chunk]:
        host = self._address.host
        kind = response.headers.get("content-type", "")
        kind = kind.partition(";")[0].strip().lower()
        # Some call their stream plain text, or nothing at all.
        streams = kind in (_EVENT_STREAM, "text/plain", "")
        if response.status_code != HTTPStatus.OK or not streams:
            page = await _page(response, host)  # the server does not stream
            yield _read(page.decode("utf-8", "replace"), host)
            return
        begun = ended = False
        async for data in _events(response, host):
            if data == DONE:
                return
            chunk = _read(data, host, streamed=True)
            begun, ended = True, ended or chunk.reason is not None
            yield chunk
        if not ended:
            raise trouble.broken(host) if begun else trouble.nothing(host)

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: Json | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; the connection is closed when the block is left."""
        # What the library and the certificates cost on first use would hold up a window.
        context = await asyncio.to_thread(_prepared)
        import httpx2

        headers = {"accept": f"{_EVENT_STREAM}, application/json", "accept-encoding": "identity"}
        if self._key and not (self._key.isascii() and self._key.isprintable()):
            raise UserFixable(
                tr("The key holds characters that no key has."),
                tr("Copy it again, without blanks or line breaks."),
            )
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        client = httpx2.AsyncClient(
            verify=context,
            headers=headers,
            follow_redirects=False,
            trust_env=not self._address.local,  # a proxy would see what should stay here
            timeout=httpx2.Timeout(None, connect=self._patience.connect),
        )
        try:
            async with (
                client,
                client.stream(method, f"{self._address.url}{path}", json=body) as response,
            ):
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise trouble.of_transport(error, self._address.host) from error


@cache
def _prepared() -> SSLContext:
    """Import the library and read the certificates, once."""
    import httpx2

    return httpx2.create_ssl_context()


async def _page(response: httpx2.Response, host: str) -> bytes:
    """Return a whole body.

    Raises:
        UserFixable: it is no success, or far too long.
    """
    page = b""
    async for more in response.aiter_bytes():
        page += more
        if len(page) > _MOST_OF_A_PAGE:
            raise trouble.not_a_server(host)
    if response.status_code == HTTPStatus.OK:
        return page
    said = None
    with suppress(ValueError, RecursionError):
        said = error_message(json.loads(page))
    raise trouble.of_status(response.status_code, host, said, response.headers)


async def _events(response: httpx2.Response, host: str) -> AsyncIterator[str]:
    """Yield the data of a stream's events.

    Raises:
        UserFixable: there is no end of them.
    """
    stream, received = EventStream(), 0
    try:
        async for more in response.aiter_bytes():
            received += len(more)
            if received > MOST_BYTES:
                raise trouble.endless(host)
            for data in stream.feed(more):
                yield data
    except BadStream as error:
        raise trouble.not_a_server(host, str(error)) from None
    for data in stream.finish():
        yield data


def _read(data: str, host: str, *, streamed: bool = False) -> Chunk:
    """Return what an event, or a whole answer, says.

    Raises:
        UserFixable: it is none, or an error of the server's.
    """
    try:
        return read_chunk(data, streamed=streamed)
    except BadStream as error:
        raise trouble.not_a_server(host, f"{error}\n{data[:500]}") from None
    except ServerSaid as error:
        raise trouble.server_error(host, str(error)) from None
