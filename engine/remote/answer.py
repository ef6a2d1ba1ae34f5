"""An answer that a server writes, as the events of an answer that the engine writes.

Thoughts that come apart from the answer are put in front of it as the model itself would write
them, between `<think>` and `</think>`; tool calls behind it, between `<tool_call>` tags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import aclosing
from time import perf_counter

from engine.commands import Connect
from engine.errors import failed
from engine.events import AnswerStats, Event, Finished, FinishReason, Received, TextDelta
from engine.remote.address import ServerAddress
from engine.remote.calls import CallCollector
from engine.remote.client import Patience, ServerClient
from engine.remote.payload import payload
from engine.remote.stream import Chunk, Counts
from engine.request import ChatRequest

_OPEN, _CLOSE = "<think>\n", "\n</think>\n\n"
_TELL_EVERY_S = 0.1
_REASONS = {"length": FinishReason.LENGTH}


class RemoteAnswer:
    """Has an answer written; used in the thread of one event loop.

    Args:
        request: what to answer.
        place: the model and its server.
        emit: takes the events.
        key_of: gives the key for the address of a server; may take a while.
        patience: how long to wait for the server.
        said: see `payload`.
    """

    def __init__(
        self,
        request: ChatRequest,
        place: Connect,
        emit: Callable[[Event], None],
        key_of: Callable[[str], str | None],
        patience: Patience | None = None,
        said: Collection[str] | None = None,
    ) -> None:
        self._said = said
        self._request, self._place, self._emit = request, place, emit
        self._key_of, self._patience = key_of, patience
        self._address = ServerAddress(place.url)
        self._began = perf_counter()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._text: list[str] = []
        self._thinks = False
        self._calls = CallCollector()
        self._counts: Counts | None = None
        self._pieces = 0  # that came: at most as many as tokens
        self._first_at: float | None = None
        self._last_at = self._told_at = 0.0

    async def write(self) -> None:
        """Write the answer to its end, which is told in any case."""
        self._task, reason = asyncio.current_task(), FinishReason.ERROR
        try:
            reason = FinishReason.STOPPED if self._stopped else await self._stream()
        except asyncio.CancelledError:
            reason = FinishReason.STOPPED
        except Exception as error:  # noqa: BLE001 - a Failed event, never a task that dies silently
            self._emit(failed(error, self._request.id))
        self._finish(reason)

    def stop(self) -> None:
        """End it where it is, and hang up."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _stream(self) -> FinishReason:
        body = payload(self._request, self._place, self._said)
        key = await asyncio.to_thread(self._key_of, self._place.url)
        client = ServerClient(self._address, key, self._patience)
        most, reason = self._request.max_tokens, "stop"
        async with aclosing(client.answer(body)) as chunks:
            async for chunk in chunks:
                self._take(chunk)
                reason = chunk.reason or reason
                if most is not None and self._pieces > most:
                    return FinishReason.LENGTH  # a server that does not keep to it
        if calls := self._calls.text():
            self._say(self._in_place(Chunk(said=calls if self._text else calls.lstrip())))
        return _REASONS.get(reason, FinishReason.STOP)

    def _take(self, chunk: Chunk) -> None:
        self._counts = chunk.counts or self._counts
        self._calls.take(chunk.calls)
        self._say(self._in_place(chunk))

    def _say(self, text: str) -> None:
        """Hand on text, and now and then how much there is."""
        now = perf_counter()
        if text:
            self._pieces += 1
            self._first_at = now if self._first_at is None else self._first_at
            self._last_at = now
            self._text.append(text)
            self._emit(TextDelta(now, self._request.id, text, ()))
        if self._first_at is not None and now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            acceptance = None if self._counts is None else self._counts.acceptance_length
            self._emit(Received(now, self._request.id, self._tokens, acceptance))

    def _in_place(self, chunk: Chunk) -> str:
        """Return the text of a chunk, with the marks of thoughts that begin or end with it."""
        text = ""
        if chunk.thought:
            text = chunk.thought if self._thinks else _OPEN + chunk.thought
            self._thinks = True
        if chunk.said:
            text += _CLOSE + chunk.said if self._thinks else chunk.said
            self._thinks = False
        return text

    @property
    def _tokens(self) -> int:
        """Return the tokens so far: the server's count, or the pieces that came."""
        counted = None if self._counts is None else self._counts.completion
        return self._pieces if counted is None else counted

    def _finish(self, reason: FinishReason) -> None:
        now, request = perf_counter(), self._request
        text, stats = "".join(self._text), self._stats(now)
        self._emit(Finished(now, request.id, reason, text, None, stats, request.sampling.seed))

    def _stats(self, now: float) -> AnswerStats:
        """Return the server's counts, with times measured here."""
        counts, tokens, first_at = self._counts or Counts(), self._tokens, self._first_at
        clicked = self._began if self._request.clicked_at is None else self._request.clicked_at
        took = 0.0 if first_at is None else self._last_at - first_at
        counted = counts.completion is not None and tokens > 1 and took > 0
        return AnswerStats(
            prompt_tokens=counts.prompt or 0,
            reused_tokens=counts.cached or 0,
            committed=tokens,
            rounds=counts.rounds or 0,
            plain_rounds=counts.plain_rounds or 0,
            drafted=counts.drafted or 0,
            accepted=counts.accepted or 0,
            drafted_by_depth=(),
            accepted_by_depth=(),
            acceptance_length=counts.acceptance_length,
            ttft_s=None if first_at is None else first_at - clicked,
            tokens_per_s=(tokens - 1) / took if counted else None,
            seconds=now - self._began,
            draft_seconds=counts.draft_s or 0.0,
            verify_seconds=counts.verify_s or 0.0,
            decode_seconds=took,
            host=self._address.host,
            host_tokens_per_s=counts.tokens_per_s,
        )
