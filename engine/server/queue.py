"""Turns of requests: one at a time, clients in rotation, and no longer a queue than is sensible."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import ExitStack

from engine.server.api_error import ApiError

_SHARED_FROM = 16
"""Places from which on a client may not have all of them."""
_LONGEST_RETRY_S = 30


class RequestQueue:
    """Gives requests their turns; used in the server's loop only.

    The engine's window goes before all of them (`engine.commands.Generate.gives_way`); among
    themselves, a client with many requests waits as long for each as one with a single one.

    Args:
        most: how many may wait; others are refused. A client that waits for a quarter of them
            itself is refused more, so that there is always a place for others.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = max(most // 4, 1) if most >= _SHARED_FROM else most
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._busy = False

    @property
    def running(self) -> int:
        """How many requests have their turn: one or none."""
        return int(self._busy)

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(map(len, self._waiting.values()))

    async def enter(self, client: str) -> ExitStack:
        """Wait for a turn, which ends with the block, or earlier when it is closed.

        Args:
            client: who asks.

        Raises:
            ApiError: too many wait already.
        """
        if self._busy:
            await self._wait(client)
        self._busy = True
        turn = ExitStack()
        turn.callback(self._next)
        return turn

    async def _wait(self, client: str) -> None:
        ahead, own = self.waiting, len(self._waiting.get(client, ()))
        if ahead >= self._most or own >= self._share:
            whose = "of yours " if ahead < self._most else ""
            raise ApiError(
                429,
                f"{own if whose else ahead} requests {whose}are waiting already; try again later.",
                code="queue_full",
                retry_after=1 + min(ahead, _LONGEST_RETRY_S),
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn had just come
                self._next()
            else:
                self._leave(client, turn)
            raise

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(client, deque())
        if turn in waiting:  # it may have been passed over already
            waiting.remove(turn)
        if not waiting:
            self._waiting.pop(client, None)

    def _next(self) -> None:
        """Hand the turn on; the client whose turn it is goes to the end of the rotation."""
        while self._waiting:
            client, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False
