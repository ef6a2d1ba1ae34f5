"""One request and its response, and what a window is told of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.events import PromptRead
from engine.server.api_error import ApiError
from engine.server.completion_request import new_id
from engine.server.dialects.dialect import Dialect, Json
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

    async def send_error(self, error: ApiError, dialect: type[Dialect]) -> None:
        """Respond with an error; a response that has begun ends with it."""
        begun = self.status.code
        reason = error.code or error.kind
        self.tell(state=RequestState.REFUSED, code=begun or error.status, reason=reason)
        if begun:
            words = json.dumps(dialect.error(error)).encode()
            await self._more(dialect.broken(error) if self._streams else words, last=True)
        else:
            # What was not read of the request is not waited for.
            headers = error.headers | {"connection": "close"}
            response = JSONResponse(dialect.error(error), error.status, headers)
            await response(self.scope, self.receive, self._send)

    async def write(self, generation: Generation, dialect: Dialect, *, stream: bool) -> Completion:
        """Send a completion as it is being written, if it is to be streamed; return it.

        Raises:
            ApiError: it came to nothing.
        """
        if stream:
            await self._begin(dialect.media_type)
            await self._more(b"".join(dialect.begin(generation.prompt_tokens)))
        async for part in generation.parts():
            match part:
                case CompletionDelta():
                    self._count(part)
                    pieces = dialect.delta(part)
                case CompletionProgress():
                    pieces = dialect.progress(part)
                case PromptRead():
                    pieces = dialect.prompt(part)
                case Completion():
                    if stream:
                        await self._more(b"".join(dialect.end(part)))
                    return part
            if stream:
                await self._more(b"".join(pieces))
        raise RuntimeError("an answer without an end")

    async def finish(
        self, dialect: Dialect, completions: Sequence[Completion], *, stream: bool
    ) -> None:
        """End the response, all completions of which are written."""
        if stream:
            await self._begin(dialect.media_type)
            await self._more(b"".join(dialect.close(completions)), last=True)
        else:
            await self._whole(dialect.joined(completions))
        stats = [each.finished.stats for each in completions]
        tokens = sum(each.committed for each in stats)
        speed = stats[0].tokens_per_s if len(stats) == 1 else None
        self.tell(state=RequestState.DONE, tokens=tokens, tokens_per_s=speed)

    async def finish_at_once(self, body: Json, prompt_tokens: int) -> None:
        """Respond with what no completion was written for."""
        await self._whole(body)
        self.tell(state=RequestState.DONE, prompt_tokens=prompt_tokens)

    async def _whole(self, body: Json) -> None:
        response = JSONResponse(body)
        if not self.status.code:
            await self._start(response.headers.items())
        await self._more(bytes(response.body), last=True)

    async def fail(self, dialect: Dialect, error: ApiError) -> None:
        """End a stream in which a completion came to nothing."""
        await self._more(b"".join(dialect.fail(error)), last=True)
        self.tell(state=RequestState.REFUSED, reason=error.code or error.kind)

    @property
    def streams(self) -> bool:
        """Tell whether a stream has begun."""
        return self._streams

    @asynccontextmanager
    async def kept_alive(
        self, dialect: type[Dialect], model: str, *, stream: bool
    ) -> AsyncIterator[None]:
        """Context in which a client that waits hears something now and then.

        A stream begins after a second; anything else when it would be time for its first sign of
        life, blanks before its JSON. What is refused before that has its own status.
        """
        beat = asyncio.ensure_future(self._beat(dialect, model, stream=stream))
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)

    async def _beat(self, dialect: type[Dialect], model: str, *, stream: bool) -> None:
        await asyncio.sleep(BEGIN_S if stream else PING_S)
        if stream:
            await self._begin(dialect.media_type)
        elif not self.status.code:
            await self._start((("content-type", "application/json"),))
            await self._more(b" ")
        while True:
            await asyncio.sleep(PING_S)
            await self._more(dialect.ping(model) if stream else b" ")

    async def _begin(self, media_type: str) -> None:
        """Begin a stream, unless it has begun."""
        if self._streams:
            return
        self._streams = True
        await self._start(
            (
                ("content-type", media_type),
                ("cache-control", "no-cache"),
                ("x-accel-buffering", "no"),
            )
        )

    def _count(self, delta: CompletionDelta) -> None:
        """Tell how much is written, now and then."""
        self.status = replace(self.status, tokens=self.status.tokens + len(delta.tokens))
        now = time.perf_counter()
        if now - self._told_at >= _TELL_S:
            self._told_at = now
            self.tell(state=RequestState.WRITING)

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
