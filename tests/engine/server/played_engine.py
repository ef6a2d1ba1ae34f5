"""An engine that plays an answer, and requests to a server without a network."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from folder_models import FOLDER_TARGET

from engine.commands import Command, Count, Generate, Load, Mode, Stop
from engine.encoder.encoder import Encoder
from engine.events import (
    AnswerStats,
    Counted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Origin,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    PromptRead,
    PromptToken,
    TextDelta,
    TokenSpan,
)
from engine.request import ChatRequest, PromptDetail, SamplingParams
from engine.server.application import ServerApplication
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus
from engine.server.settings import ServerSettings

TOKEN = "a-token-of-the-tests"
NAME = "Babbler"


def plan(sampling: SamplingParams | None = None, name: str = NAME) -> PlanReady:
    summary = PlanSummary(
        Mode.CPU, "cpu", "cpu", "Draft", 512, "cpu:q8", ("because",), sampling=sampling
    )
    path = FOLDER_TARGET if name == NAME else Path("/models") / name
    return PlanReady(perf_counter(), path, name, summary)


def stats(committed: int, *, prompt: int = 5) -> AnswerStats:
    return AnswerStats(
        prompt_tokens=prompt,
        reused_tokens=2,
        committed=committed,
        rounds=2,
        plain_rounds=1,
        drafted=4,
        accepted=3,
        drafted_by_depth=(1,),
        accepted_by_depth=(1,),
        acceptance_length=2.5,
        ttft_s=0.1,
        tokens_per_s=20.0,
        seconds=0.5,
        draft_seconds=0.1,
        verify_seconds=0.2,
        decode_seconds=0.25,
        mode="cpu",
    )


def read(request: ChatRequest) -> PromptRead:
    """What is told of a prompt: of a text, a token for each of its words."""
    raw = request.raw
    assert raw is not None
    if request.detail is PromptDetail.EMBEDDING:
        return PromptRead(perf_counter(), request.id, embedding=(3.0, -4.0))
    words = [f"<{each}>" for each in raw.ids] if raw.ids else re.findall(r" ?\S+", raw.text)
    chances = (None, *[0.25] * (len(words) - 1))
    tokens = (PromptToken(i, *pair) for i, pair in enumerate(zip(words, chances, strict=True)))
    return PromptRead(perf_counter(), request.id, tuple(tokens))


def counted(question: Count) -> Counted:
    """How long a request is: as its last text, a token a letter."""
    request = question.request
    raw, last = request.raw, request.messages[-1].text if request.messages else ""
    ids = raw.ids if raw and raw.ids else tuple(map(ord, raw.text if raw else last))
    text = "".join(map(chr, ids))
    refused = "This template takes no such thing." if text == "refuse" else ""
    return Counted(perf_counter(), question.id, len(ids), 512, ids, text, refused)


@dataclass
class PlayedEngine:
    """Answers every request with the same tokens, at once.

    Attributes:
        tokens: the texts of the answer's tokens.
        reason: how it ends.
        holds: stops before the last token and waits for a Stop.
        failure: what it fails with instead.
        stop: the stop string that came up.
    """

    tokens: Sequence[str] = ("Good", " day", "!")
    reason: FinishReason = FinishReason.STOP
    holds: bool = False
    failure: Failed | None = None
    stop: str = ""
    commands: list[Command] = field(default_factory=list)
    told: list[RequestStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.dispatcher.open(self.submit)
        self.dispatcher.take(plan())

    @property
    def requests(self) -> list[RequestStatus]:
        """The last word on each request, in the order of their arrival."""
        return list({status.id: status for status in self.told}.values())

    @property
    def asked(self) -> Generate:
        """The last answer that was asked for."""
        return [each for each in self.commands if isinstance(each, Generate)][-1]

    def submit(self, command: Command) -> None:
        self.commands.append(command)
        if isinstance(command, Stop) and command.request_id is not None:
            self._tell(self._finished(command.request_id, FinishReason.STOPPED, self.tokens[:-1]))
        if isinstance(command, Load):
            if self.failure is not None:
                self.dispatcher.take(replace(self.failure, request_id=None))
            known = plan(name=NAME if self.failure else command.model.name)
            self.dispatcher.take(known)
        if isinstance(command, Count):
            self._tell(counted(command))
        if not isinstance(command, Generate):
            return
        name = command.request.id
        if self.failure is not None:
            self._tell(replace(self.failure, request_id=name))
            self._tell(self._finished(name, FinishReason.ERROR, ()))
            return
        self._tell(PrefillProgress(perf_counter(), name, 0, 5, 2))
        if command.request.detail is not PromptDetail.NONE:
            self._tell(read(command.request))
        if command.request.max_tokens == 0:
            self._tell(self._finished(name, FinishReason.LENGTH, ()))
            return
        start = 0
        for number, text in enumerate(self.tokens[:-1] if self.holds else self.tokens):
            end = start + len(text.encode("utf-16-le")) // 2
            span = TokenSpan(number, start, end, Origin.TARGET, 0.5)
            self._tell(TextDelta(perf_counter(), name, text, (span,)))
            start = end
        if not self.holds:
            self._tell(self._finished(name, self.reason, self.tokens))

    def _tell(self, event: Event) -> None:
        assert self.dispatcher.take(event)

    def _finished(self, name: str, reason: FinishReason, tokens: Sequence[str]) -> Finished:
        ids = tuple(range(len(tokens)))
        return Finished(
            perf_counter(), name, reason, "".join(tokens), ids, stats(len(tokens)), 7, "cpu:q8",
            self.stop,
        )  # fmt: skip

    def application(self, *others: str, encoder: Encoder | None = None, **settings: Any) -> Any:
        """Return the ASGI application in front of it.

        `others`: models that requests may load. `encoder`: embeds in its place.
        """
        known = ServerSettings(**{"token": TOKEN, **settings})
        loads = {name: Load(Path("/models") / name, after_answer=True) for name in others}
        catalogue = (lambda: loads) if others else None
        return ServerApplication(self.dispatcher, known, self.told.append, catalogue, encoder).asgi


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of a stream of events, [DONE] left as it is."""
        if self.headers["content-type"] == "application/x-ndjson":
            return [json.loads(line) for line in self.body.splitlines()]
        assert self.headers["content-type"].startswith("text/event-stream")
        lines = self.body.decode().split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [each if each == "[DONE]" else json.loads(each) for each in data]


Call = Callable[..., Awaitable[None]]


async def exchange(
    app: Call,
    path: str,
    body: object = None,
    *,
    method: str = "",
    headers: Mapping[str, str | None] | None = None,
    gone: asyncio.Event | None = None,
    pieces: int = 1,
    address: str = "127.0.0.1",
    told: list[int] | None = None,
) -> Reply:
    """Send a request as a web server would hand it over.

    Args:
        app: the application.
        path: of the request.
        body: as bytes, or what becomes JSON; None: a GET.
        method: of HTTP, where it is not the usual one.
        headers: besides the usual ones, or in their place; None takes one away.
        gone: set when the client has left.
        pieces: in how many the body arrives.
        address: of the client.
        told: gets the lengths of what comes, as it comes.
    """
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    usual = {"host": "127.0.0.1:8000", "authorization": f"Bearer {TOKEN}"}
    if body is not None:
        usual |= {"content-type": "application/json", "content-length": str(len(raw))}
    sent: dict[str, str | None] = {**usual, **(headers or {})}
    size = -(-len(raw) // pieces) or 1
    parts = [raw[at : at + size] for at in range(0, max(len(raw), 1), size)]
    leaves = gone or asyncio.Event()
    status, named, received = 0, {}, b""

    async def receive() -> dict[str, Any]:
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, named, received
        if message["type"] == "http.response.start":
            status = message["status"]
            named = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            received += message["body"]
            if told is not None:
                told.append(len(message["body"]))

    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "client": (address, 5000),
        "server": ("127.0.0.1", 8000),
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in sent.items()
            if value is not None
        ],
    }
    await app(scope, receive, send)
    return Reply(status, named, received)


def ask(app: Call, path: str, body: object = None, **wishes: Any) -> Reply:
    """Send one request and wait for its response."""
    return asyncio.run(exchange(app, path, body, **wishes))


async def until(told: Callable[[], object]) -> None:
    """Let the loop run until something is so."""
    while not told():  # noqa: ASYNC110 - it comes from other threads
        await asyncio.sleep(0)
