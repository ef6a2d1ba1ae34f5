"""The paths of the server, and a request's way through them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import perf_counter

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.activity import Outcome, RequestBegan, RequestEnded, ServerEvent
from engine.server.asked import Asked, ServedModel
from engine.server.dialects.anthropic import AnthropicMessages
from engine.server.dialects.chat import ChatCompletions
from engine.server.dialects.completions import TextCompletions
from engine.server.dialects.dialect import Dialect, Json
from engine.server.dialects.responses import Responses
from engine.server.generation import Answered, Generation
from engine.server.guard import Guard
from engine.server.members import parsed
from engine.server.metrics import CONTENT_TYPE, ServerMetrics
from engine.server.queue import RequestQueue
from engine.server.reasoning import AnswerPiece
from engine.server.reception import Reception
from engine.server.refusal import HttpRefusal, no_model
from engine.server.settings import ServerSettings

DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": ChatCompletions(),
    "/v1/completions": TextCompletions(),
    "/v1/responses": Responses(),
    "/v1/messages": AnthropicMessages(),
}
_MODELS = "/v1/models"
_OTHER = "other"
"""Paths that the server does not know, in its counts."""
_LONGEST_NAME = 80

_log = logging.getLogger(__name__)


class ServerApplication:
    """Answers requests with the engine behind a reception.

    Args:
        reception: the door to the engine.
        settings: who may ask, and how much.
        tell: takes what happens, in the server's thread; must be quick.
    """

    def __init__(
        self,
        reception: Reception,
        settings: ServerSettings,
        tell: Callable[[ServerEvent], None] = lambda _: None,
    ) -> None:
        self._reception, self._tell = reception, tell
        self._queue = RequestQueue(settings.most_waiting)
        self._closing = asyncio.Event()
        self._metrics = ServerMetrics()
        self._pages: dict[str, Callable[[], Response]] = {
            "/health": self._health,
            "/metrics": self._counts,
            _MODELS: self._models,
        }
        self.asgi: ASGIApp = Guard(self._serve, settings, self._refuse)
        """The application for a web server."""

    def close(self) -> None:
        """End all answers at once; called in the server's loop."""
        self._closing.set()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that was let in; nothing of its content is logged."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._route(scope, receive, watched)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a response, never a traceback
            if not started:
                await self._refuse(scope, receive, watched, _in_words(error))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        page = self._pages.get(path)
        if page is None and path.startswith(f"{_MODELS}/"):
            name = path.removeprefix(f"{_MODELS}/")
            page = lambda: JSONResponse(self._model(name))  # noqa: E731 - one of the pages
        dialect = DIALECTS.get(path)
        if page is None and dialect is None:
            raise HttpRefusal(404, "There is nothing here.")
        if scope["method"] != (method := "GET" if dialect is None else "POST"):
            raise HttpRefusal(405, f"This path takes {method}.")
        if page is not None:
            response = page()
            self._metrics.responded(self._known(path), response.status_code)
            await response(scope, receive, send)
        elif dialect is not None:
            await self._answer(dialect, scope, receive, send)

    async def _answer(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request and answer it, until the client is gone."""
        body = await Request(scope, receive).body()
        model = self._reception.model
        if model is None:
            raise no_model()
        asked = dialect.read(parsed(body), model)
        address, program = _client(scope)
        began = RequestBegan(perf_counter(), asked.id, address, program, scope["path"])
        self._tell(began)
        exchange = _Exchange(asked, dialect, send)
        work = asyncio.ensure_future(self._write(exchange, f"{address} {program}"))
        gone = asyncio.ensure_future(_until_gone(receive))
        closing = asyncio.ensure_future(self._closing.wait())
        tasks = (work, gone, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except Exception as error:  # noqa: BLE001 - as above
            refusal, exchange.outcome = _in_words(error), Outcome.REFUSED
            if not exchange.status:
                exchange.status = refusal.status
                await self._tell_client(scope, receive, send, refusal)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if exchange.status:
                self._metrics.responded(began.path, exchange.status)
            self._tell(
                RequestEnded(
                    perf_counter(),
                    asked.id,
                    address,
                    exchange.outcome,
                    exchange.status,
                    exchange.tokens,
                )
            )

    async def _write(self, exchange: _Exchange, client: str) -> None:
        """Wait for the request's turn and write the answer."""
        with await self._queue.enter(client) as turn:
            async with Generation(self._reception, exchange.asked, turn.end) as generation:
                await generation.begin()
                if exchange.asked.stream:
                    await exchange.stream(generation)
                else:
                    await exchange.whole(generation)
        if exchange.answer is not None:
            self._metrics.answered(exchange.answer.finished.stats)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, refusal: HttpRefusal
    ) -> None:
        """Refuse a request that was not let in, or not understood."""
        self._metrics.responded(self._known(scope["path"]), refusal.status)
        address, _ = _client(scope)
        now = perf_counter()
        self._tell(RequestEnded(now, "", address, Outcome.REFUSED, refusal.status))
        await self._tell_client(scope, receive, send, refusal)

    @staticmethod
    async def _tell_client(
        scope: Scope, receive: Receive, send: Send, refusal: HttpRefusal
    ) -> None:
        """Respond with a refusal, in the client's dialect."""
        dialect = DIALECTS.get(scope["path"])
        body = refusal.as_openai() if dialect is None else dialect.refusal(refusal)
        # What was not read of the request is not waited for.
        headers = refusal.headers | {"connection": "close"}
        await JSONResponse(body, refusal.status, headers)(scope, receive, send)

    def _known(self, path: str) -> str:
        return path if path in DIALECTS or path in self._pages else _OTHER

    def _health(self) -> Response:
        if self._reception.model is None:
            return JSONResponse({"status": "no model"}, 503)
        return JSONResponse({"status": "ok"})

    def _counts(self) -> Response:
        text = self._metrics.text(self._queue.running, self._queue.waiting)
        return PlainTextResponse(text, media_type=CONTENT_TYPE)

    def _models(self) -> Response:
        model = self._reception.model
        data = [] if model is None else [_described(model)]
        return JSONResponse({"object": "list", "data": data})

    def _model(self, name: str) -> Json:
        model = self._reception.model
        if model is None or model.name != name:
            raise HttpRefusal(404, "There is no such model.", code="model_not_found")
        return _described(model)


class _Exchange:
    """A request and how far its response is."""

    def __init__(self, asked: Asked, dialect: Dialect, send: Send) -> None:
        self.asked, self._dialect, self._send = asked, dialect, send
        self.outcome, self.status, self.tokens = Outcome.LEFT, 0, 0
        self.answer: Answered | None = None

    async def whole(self, generation: Generation) -> None:
        """Send the answer as one object."""
        async for part in generation.pieces():
            if isinstance(part, Answered):
                self._end(part)
                response = JSONResponse(self._dialect.whole(self.asked, part))
                await self._start(response.headers.items())
                await self._more(bytes(response.body), last=True)

    async def stream(self, generation: Generation) -> None:
        """Send the answer as it is being written."""
        writer = self._dialect.writer(self.asked)
        await self._start(
            (
                ("content-type", "text/event-stream; charset=utf-8"),
                ("cache-control", "no-cache"),
                ("x-accel-buffering", "no"),
            )
        )
        await self._more(b"".join(writer.begin(generation.prompt_tokens)))
        try:
            async for part in generation.pieces():
                if isinstance(part, AnswerPiece):
                    await self._more(b"".join(writer.piece(part)))
                else:
                    self._end(part)
                    await self._more(b"".join(writer.end(part)), last=True)
        except HttpRefusal as refusal:
            self.outcome = Outcome.REFUSED
            await self._more(b"".join(writer.fail(refusal)), last=True)

    def _end(self, answer: Answered) -> None:
        self.answer, self.outcome = answer, Outcome.ANSWERED
        self.tokens = answer.finished.stats.committed

    async def _start(self, headers: Iterable[tuple[str, str]]) -> None:
        self.status = 200
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _more(self, body: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})


def _in_words(error: Exception) -> HttpRefusal:
    """Return an error as the refusal of a request; only its kind is logged, its words may quote."""
    if isinstance(error, HttpRefusal):
        return error
    _log.error("a request failed: %s", type(error).__name__)
    return HttpRefusal(500, "Something went wrong inside Duotail.")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _client(scope: Scope) -> tuple[str, str]:
    """Return the client's address and what it calls itself."""
    client = scope.get("client")
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    named = next((value for name, value in headers if name == b"user-agent"), b"")
    program = "".join(filter(str.isprintable, named.decode("latin-1")))
    return client[0] if client else "", program[:_LONGEST_NAME]


def _described(model: ServedModel) -> Json:
    return {
        "id": model.name,
        "object": "model",
        "created": model.since,
        "owned_by": "duotail",
        "context_length": model.plan.context,
        "max_model_len": model.plan.context,
        "mode": str(model.plan.mode),
        "draft": model.plan.draft,
    }
