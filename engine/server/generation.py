"""A completion that a client waits for: the engine's events in, deltas out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from engine.commands import Generate, Stop
from engine.events import (
    AnswerStats,
    Event,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    PromptRead,
    RoundFinished,
    TextDelta,
)
from engine.request import ChatRequest, Message, Role, ToolCall
from engine.server.api_error import ApiError, from_failure, no_model
from engine.server.calls import CallReader
from engine.server.dispatcher import Dispatcher
from engine.server.joined_stats import joined_stats
from engine.server.progress import CompletionProgress
from engine.server.reasoning import CallPart, CompletionDelta, ReasoningParser, Token

_HEARD = TextDelta | Failed | Finished | PrefillProgress | PromptRead
_TELL_S = 0.1
"""Seconds between two reports of how far an answer is."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole completion.

    Attributes:
        deltas: all of it.
        finished: how it ended; its statistics are those of the whole completion.
        prompt: what was told of its prompt, where that was wanted.
    """

    deltas: tuple[CompletionDelta, ...]
    finished: Finished
    prompt: PromptRead | None = None

    @property
    def content(self) -> str:
        """Text that is meant for the user."""
        said = (each for each in self.deltas if not each.reasoning and each.call is None)
        return "".join(each.text for each in said)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that it calls."""
        whole = (each.call for each in self.deltas if each.part is CallPart.WHOLE)
        return tuple(call for call in whole if call is not None)

    @property
    def reasoning(self) -> str:
        """Text of the thoughts before it."""
        return "".join(delta.text for delta in self.deltas if delta.reasoning)


Part = CompletionDelta | CompletionProgress | PromptRead | Completion
"""What a generation tells."""


class Generation(AbstractAsyncContextManager["Generation"]):
    """Has a completion written; leaving the block stops it, wherever it is.

    One that has to make room for the window's user goes on afterwards: the text is that of an
    uninterrupted answer (`engine.request.ChatRequest`).

    Args:
        dispatcher: the door to the engine.
        chat: what is wanted.
        progress: whether to tell how far it is.
        on_end: called when the engine is done with it, which may be long before a slow client is.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        chat: ChatRequest,
        on_end: Callable[[], None] = lambda: None,
        *,
        progress: bool = False,
    ) -> None:
        self._on_end = on_end
        self._dispatcher, self._chat = dispatcher, chat
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._heard = _HEARD | RoundFinished if progress else _HEARD
        self._parser, self._calls = ReasoningParser(chat), CallReader(chat.tools)
        self._prompt: PromptRead | None = None
        self._stats: AnswerStats | None = None
        self._deltas: list[CompletionDelta] = []
        self._failure: Failed | None = None
        self._first: Event | None = None
        self._own = 0  # tokens of the present stretch that the model wrote
        self._ended = self._left = False

    async def __aenter__(self) -> Self:
        """Ask the engine."""
        self._dispatcher.listen(self._chat.id, self._hear)
        self._ask(self._chat)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the engine where it is still writing."""
        self._left = True
        self._dispatcher.leave(self._chat.id)
        if not self._ended:
            self._dispatcher.submit(Stop(self._chat.id))

    async def begin(self) -> None:
        """Wait until the prompt is being read.

        Raises:
            ApiError: it cannot be answered.
        """
        while self._first is None:
            event = await self._events.get()
            if isinstance(event, Failed):
                self._failure = event
                continue
            if isinstance(event, Finished):
                self._check(event)
            self._first = event

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt, once it is being read."""
        return self._first.total if isinstance(self._first, PrefillProgress) else 0

    async def parts(self) -> AsyncIterator[Part]:
        """Yield what is written and, if it is wished, how far it is; at the end the completion.

        Raises:
            ApiError: it came to nothing.
        """
        await self.begin()
        event = self._first
        progress, told_at = CompletionProgress(self.prompt_tokens), 0.0
        while event is not None:
            match event:
                case TextDelta():
                    for delta in self._read(self._parser.feed(tokens_in(event))):
                        yield delta
                case RoundFinished():
                    progress.add(event)
                    if event.at - told_at >= _TELL_S:
                        told_at = event.at
                        yield progress
                case PromptRead() if self._prompt is None:
                    self._prompt = event
                    yield event
                case Failed():
                    self._failure = event
                case Finished():
                    self._check(event)
                    for delta in (*self._read(self._parser.finish()), *self._last()):
                        yield delta
                    yield Completion(tuple(self._deltas), event, self._prompt)
                    return
            event = await self._events.get()

    def _read(self, deltas: Iterable[CompletionDelta]) -> Iterator[CompletionDelta]:
        """Yield deltas with the calls among them."""
        for found in deltas:
            for delta in self._calls.feed(found):
                self._deltas.append(delta)
                yield delta

    def _last(self) -> Iterator[CompletionDelta]:
        """Yield what might have become a call."""
        for delta in self._calls.finish():
            self._deltas.append(delta)
            yield delta

    def _ask(self, chat: ChatRequest) -> None:
        self._chat = chat
        self._dispatcher.submit(Generate(chat, gives_way=True))

    def _hear(self, event: Event) -> None:
        """Take an event in the engine's thread."""
        if isinstance(event, self._heard):
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._arrive, event)

    def _arrive(self, event: Event) -> None:
        """Take an event in the loop, however far the client has read."""
        if isinstance(event, TextDelta):
            # What the template begins an answer with has no probability.
            self._own += sum(span.probability is not None for span in event.spans)
        if isinstance(event, Finished):
            if event.reason is FinishReason.YIELDED and not self._left:
                self._go_on(event)
                return
            event = replace(event, stats=self._all(event))
            self._ended = True
            self._on_end()
        self._events.put_nowait(event)

    def _check(self, event: Finished) -> None:
        """Raise where the answer was ended by something else than itself or the client."""
        if event.reason is FinishReason.ERROR:
            if self._dispatcher.model is None:
                raise no_model()
            if self._failure is None:
                raise ApiError(500, "The answer failed.")
            raise from_failure(self._failure)
        if event.reason is FinishReason.STOPPED:
            words = "The answer was stopped at the server."
            raise ApiError(503, words, code="stopped", retry_after=1)

    def _go_on(self, event: Finished) -> None:
        """Have an answer that made room continued."""
        self._stats = self._all(event)
        chat = self._chat
        if event.token_ids:
            begun = Message(Role.ASSISTANT, event.text, event.token_ids)
            most, own = chat.max_tokens, self._own or event.stats.committed
            left = None if most is None else max(most - own, 1)
            chat = replace(chat, messages=continued(chat, begun), max_tokens=left)
        self._own = 0
        self._ask(replace(chat, clicked_at=None))

    def _all(self, event: Finished) -> AnswerStats:
        return event.stats if self._stats is None else joined_stats(self._stats, event.stats)


def continued(chat: ChatRequest, new: Message) -> tuple[Message, ...]:
    """Return the messages of a request whose answer has grown.

    Args:
        chat: as it was asked.
        new: what has been written since.
    """
    *before, last = chat.messages or (new,)
    if last is new:
        return (new,)
    if last.role is not Role.ASSISTANT:
        return (*chat.messages, new)
    ids = None if last.token_ids is None else (*last.token_ids, *(new.token_ids or ()))
    return (*before, Message(Role.ASSISTANT, last.text + new.text, ids))


def tokens_in(delta: TextDelta) -> list[Token]:
    """Return a stretch of text as its tokens, each with what it wrote."""
    spans = delta.spans
    if not spans:
        return []
    start = spans[0].start
    if delta.text.isascii():
        return [(delta.text[span.start - start : span.end - start], span) for span in spans]
    units = delta.text.encode("utf-16-le", "surrogatepass")
    return [
        (units[2 * (s.start - start) : 2 * (s.end - start)].decode("utf-16-le", "replace"), s)
        for s in spans
    ]
