"""MCP servers at an address: bounds for what they send, and no way to another address."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2

from engine.remote.address import ServerAddress

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MOST_BYTES = 32 * 2**20
"""Bytes of one response."""
_MOST_EVENT = 8 * 2**20
_CONNECT_S, _READ_S = 10.0, 600.0


class TooMuch(httpx2.ReadError):
    """A server sends far more than anybody reads."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._stream:
            total += len(piece)
            if total > MOST_BYTES:
                raise TooMuch("too much was sent")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Refuses what is compressed, for nobody asked for it, and ends what does not end."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the one address there is."""
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise TooMuch("compressed, which nobody asked for")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream)
        return response


@asynccontextmanager
async def http(
    address: ServerAddress, headers: Sequence[tuple[str, str]]
) -> AsyncGenerator[TransportStreams]:
    """Exchange messages with a server at an address.

    Redirects are followed within the address's own scheme, host and port only: that is the SDK's
    rule. What goes to this computer goes through no proxy.

    Args:
        address: where it is.
        headers: that go along with each request.
    """
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S)
    sent = {"accept-encoding": "identity", **dict(headers)}
    transport = BoundedTransport(trust_env=not address.local)
    async with (
        httpx2.AsyncClient(
            transport=transport, headers=sent, timeout=timeout, trust_env=False
        ) as client,
        streamable_http_client(
            address.url, http_client=client, max_sse_event_size=_MOST_EVENT
        ) as streams,
    ):
        yield streams
