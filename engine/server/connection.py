"""A connection to a client; one that does nothing is closed."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Seconds in which a request's head has to arrive."""
MOST_SILENT = 64
"""Connections of one address that may be open without a request so far."""
STALLED_S = 60.0
"""Seconds after which a client is given up that takes nothing of its response."""


class ClientConnection(H11Protocol):
    """uvicorn's own, which closes kept connections between two requests, and what is missing there.

    The time of a request's body is in `access`.
    """

    _asked = False
    _since = 0.0
    """Whether a request has come, and when the connection was made."""
    _head: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as in uvicorn
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._make_place()
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of a head."""
        super().data_received(data)
        self._asked = self._asked or self.conn.their_state is not h11.IDLE
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        for timer in (self._head, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _make_place(self) -> None:
        """Close the oldest connection of an address with many that have asked for nothing yet.

        So nobody keeps others out by connecting; whoever asks at once is never among them for long.
        """
        address = self._address
        silent = [
            each
            for each in self.connections
            if isinstance(each, ClientConnection)
            and not each._asked  # noqa: SLF001 - of its own class
            and each._address == address  # noqa: SLF001
            and not each.transport.is_closing()
        ]
        if len(silent) > MOST_SILENT:
            min(silent, key=lambda each: each._since).transport.abort()  # noqa: SLF001

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _expect_head(self) -> None:
        waits = self.conn.their_state is h11.IDLE
        if waits and self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.transport.abort)
        elif not waits and self._head is not None:
            self._head.cancel()
            self._head = None
