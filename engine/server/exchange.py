"""One request and its response, and what a window is told of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.server.api_error import ApiError
from engine.server.completion_request import new_id
from engine.server.dialects.dialect import Dialect, sse
from engine.server.events import RequestState, RequestStatus
from engine.server.generation import Completion, Generation
from engine.server.progress import CompletionProgress
from engine.server.reasoning import CompletionDelta

_LONGEST_NAME = 80
BEGIN_S, PING_S = 1.0, 15.0
"""Seconds without a response until a stream begins all the same, and between its comments."""
_TELL_S = 0.25
"""Seconds between two reports of how many tokens are written."""


class Exchange:
    """A request from its arrival to its end.

    Args:
        scope: of the request.
        receive: takes what the client sends.
        send: sends to the client.
        on_change: takes the status at each change.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        on_change: Callable[[RequestStatus], None],
    ) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        self._on_change = on_change
        client = scope.get("client")
        self.status = RequestStatus(
            new_id(), time.time(), client[0] if client else "", _user_agent(scope), scope["path"]
        )
        self.arrived_at = time.perf_counter()
        self.completion: Completion | None = None
        self._told_at = 0.0
        self._streams = False

    @property
    def client(self) -> str:
        """Client by address and name, as the queue tells them apart."""
        return f"{self.status.address} {self.status.user_agent}"

    def tell(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the status
        """Tell of a change."""
        self.status = replace(self.status, **changes)
        self._on_change(self.status)

    async def send_error(self, error: ApiError, body: dict[str, object]) -> None:
        """Respond with an error, unless a response has begun."""
        begun = self.status.code
        reason = error.code or error.kind
        self.tell(state=RequestState.REFUSED, code=begun or error.status, reason=reason)
        if begun and self._streams:
            await self._more(sse(body, "error"), last=True)
        elif not begun:
            # What was not read of the request is not waited for.
            headers = error.headers | {"connection": "close"}
            await JSONResponse(body, error.status, headers)(self.scope, self.receive, self._send)

    async def respond(self, generation: Generation, dialect: Dialect, *, stream: bool) -> None:
        """Send a completion, as it is being written or in one piece."""
        if stream:
            await self._stream(generation, dialect)
            return
        async for part in generation.deltas():
            if isinstance(part, CompletionDelta):
                self._count(part)
            elif isinstance(part, Completion):
                response = JSONResponse(dialect.response(part))
                await self._start(response.headers.items())
                await self._more(bytes(response.body), last=True)
                self._finish(part)

    @asynccontextmanager
    async def kept_alive(self, *, stream: bool) -> AsyncIterator[None]:
        """Context in which a client that waits for a stream hears from it now and then.

        What is refused at once has its own status; later the response has begun.
        """
        beat = asyncio.ensure_future(self._beat()) if stream else None
        try:
            yield
        finally:
            if beat is not None:
                beat.cancel()
                await asyncio.gather(beat, return_exceptions=True)

    async def _beat(self) -> None:
        await asyncio.sleep(BEGIN_S)
        await self._begin_stream()
        while True:
            await asyncio.sleep(PING_S)
            await self._more(b": ping\n\n")

    async def _begin_stream(self) -> None:
        if self._streams:
            return
        self._streams = True
        await self._start(
            (
                ("content-type", "text/event-stream; charset=utf-8"),
                ("cache-control", "no-cache"),
                ("x-accel-buffering", "no"),
            )
        )

    async def _stream(self, generation: Generation, dialect: Dialect) -> None:
        await self._begin_stream()
        await self._more(b"".join(dialect.begin(generation.prompt_tokens)))
        try:
            async for part in generation.deltas():
                match part:
                    case CompletionDelta():
                        self._count(part)
                        await self._more(b"".join(dialect.delta(part)))
                    case CompletionProgress():
                        await self._more(b"".join(dialect.progress(part)))
                    case Completion():
                        await self._more(b"".join(dialect.end(part)), last=True)
                        self._finish(part)
        except ApiError as error:
            await self._more(b"".join(dialect.fail(error)), last=True)
            self.tell(state=RequestState.REFUSED, reason=error.code or error.kind)

    def _count(self, delta: CompletionDelta) -> None:
        """Tell how much is written, now and then."""
        self.status = replace(self.status, tokens=self.status.tokens + len(delta.tokens))
        now = time.perf_counter()
        if now - self._told_at >= _TELL_S:
            self._told_at = now
            self.tell(state=RequestState.WRITING)

    def _finish(self, completion: Completion) -> None:
        self.completion = completion
        stats = completion.finished.stats
        self.tell(
            state=RequestState.DONE, tokens=stats.committed, tokens_per_s=stats.tokens_per_s
        )  # fmt: skip

    async def _start(self, headers: Iterable[tuple[str, str]]) -> None:
        self.status = replace(self.status, code=200)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _more(self, body: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})


def _user_agent(scope: Scope) -> str:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    named = next((value for name, value in headers if name == b"user-agent"), b"")
    return "".join(filter(str.isprintable, named.decode("latin-1")))[:_LONGEST_NAME]
