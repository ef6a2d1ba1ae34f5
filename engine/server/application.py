"""The paths of the server, and a request's way through them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.encoder.encoder import Encoder
from engine.server.access import AccessMiddleware
from engine.server.api_error import ApiError, bad_request, no_model
from engine.server.body import decoded
from engine.server.completion_request import CompletionRequest
from engine.server.dialects.anthropic import AnthropicMessages
from engine.server.dialects.chat import ChatCompletions
from engine.server.dialects.completions import TextCompletions
from engine.server.dialects.dialect import Dialect
from engine.server.dialects.embeddings import Embeddings, OllamaEmbed, OllamaEmbedding
from engine.server.dialects.infill import Infill, LlamaCompletion
from engine.server.dialects.ollama import OllamaChat, OllamaGenerate
from engine.server.dialects.responses import Responses
from engine.server.dispatcher import Dispatcher, ServedModel
from engine.server.embedder import Embedder
from engine.server.events import RequestState, RequestStatus
from engine.server.exchange import Exchange
from engine.server.generation import Completion, Generation
from engine.server.members import Members, parsed
from engine.server.metrics import ServerMetrics
from engine.server.models import Catalogue, ModelLoader
from engine.server.pages import MODELS, PAGES, SHOW, ServerPages
from engine.server.queue import RequestQueue
from engine.server.settings import ServerSettings
from engine.server.token_questions import QUESTIONS

DIALECTS: dict[str, type[Dialect]] = {
    "/v1/chat/completions": ChatCompletions,
    "/v1/completions": TextCompletions,
    "/v1/responses": Responses,
    "/v1/messages": AnthropicMessages,
    "/v1/embeddings": Embeddings,
    "/api/chat": OllamaChat,
    "/api/generate": OllamaGenerate,
    "/api/embed": OllamaEmbed,
    "/api/embeddings": OllamaEmbedding,
    "/infill": Infill,
    "/completion": LlamaCompletion,
}
_OTHER = "other"
"""Paths that the server does not know, in its counts."""

_log = logging.getLogger(__name__)


class ServerApplication:
    """Answers requests with the engine behind a dispatcher.

    Args:
        dispatcher: the door to the engine.
        settings: who may ask, and how much.
        on_change: takes the status of a request at each change, in the server's thread; must be
            quick.
        catalogue: models that requests may load; None: none.
        encoder: embeds; None: the loaded model does.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: ServerSettings,
        on_change: Callable[[RequestStatus], None] = lambda _: None,
        catalogue: Catalogue | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self._dispatcher, self._on_change = dispatcher, on_change
        self._embedder = None if encoder is None else Embedder(encoder)
        self._models = ModelLoader(dispatcher, settings, catalogue)
        self.is_crowded: Callable[[], bool] = lambda: False
        """Whether more connections are open than there should be."""
        self._queue = RequestQueue(settings.max_waiting)
        self._open: set[asyncio.Future[None]] = set()  # one of each answer, done when it is to end
        self._metrics = ServerMetrics()
        self._pages = ServerPages(
            dispatcher, self._models, self._metrics, self._queue, self._embedder
        )
        self.asgi: ASGIApp = AccessMiddleware(self._serve, settings, self._refuse)
        """The application for a web server."""

    def close(self) -> None:
        """End all answers at once; called in the server's loop."""
        for each in self._open:
            if not each.done():
                each.set_result(None)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that was let in; nothing of its content is logged."""
        scope = {**scope, "path": (path := _path(scope["path"]))}
        exchange = Exchange(scope, receive, send, self._on_change)
        try:
            takes = _methods(path)
            if not takes:
                raise ApiError(404, "There is nothing here.")
            if scope["method"] not in takes:
                raise ApiError(405, f"This path takes {' and '.join(takes)}.")
            if self.is_crowded():
                raise ApiError(503, "There are too many connections.", retry_after=1)
            if (dialect := DIALECTS.get(path)) is not None:
                await self._complete(exchange, dialect)
                return
            response = await self._at_once(exchange, path)
            self._metrics.responded(_known(path), response.status_code)
            await response(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a response, never a traceback
            await self._fail(exchange, error)

    async def _at_once(self, exchange: Exchange, path: str) -> Response:
        """Return the response to a request that needs no turn."""
        if path == SHOW:
            return await self._pages.show(await _body(exchange))
        if (question := QUESTIONS.get(path)) is None:
            return await self._pages.page(path)
        body = await _body(exchange)
        if await self._models.check(body.text("model")) is None:
            raise no_model()  # that one is not loaded
        counted = await self._dispatcher.counted(question.read(body))
        if counted.refused:
            raise bad_request(counted.refused)
        return JSONResponse(question.answer(counted))

    async def _complete(self, exchange: Exchange, dialect: type[Dialect]) -> None:
        """Read a request and answer it, until the client is gone."""
        body = await _body(exchange)
        if self._embedder is not None and issubclass(dialect, Embeddings):
            await self._attended(exchange, self._embed(exchange, self._embedder, dialect, body))
            return
        name = body.text("model") or ""
        model = await self._models.check(name)
        wanted = _parse(exchange, dialect, body, model)  # what is wrong need not wait
        exchange.tell(model=name if model is None else model.name)
        await self._attended(exchange, self._write(exchange, dialect, body, stream=wanted.stream))

    async def _attended(self, exchange: Exchange, answering: Coroutine[Any, Any, None]) -> None:
        """Have a request answered, until the client is gone or the server ends."""
        work = asyncio.ensure_future(answering)
        gone = asyncio.ensure_future(_until_gone(exchange.receive))
        closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(closing)
        tasks = (work, gone, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except Exception as error:  # noqa: BLE001 - as above
            await self._fail(exchange, error)
        else:
            if exchange.status.code:
                self._metrics.responded(exchange.status.path, exchange.status.code)
        finally:
            self._open.discard(closing)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not exchange.status.state.over:
                self._metrics.cancelled(exchange.status.tokens)
                exchange.tell(state=RequestState.GONE)

    async def _embed(
        self, exchange: Exchange, embedder: Embedder, dialect: type[Embeddings], body: Members
    ) -> None:
        """Answer a request for embeddings with the model that was chosen for them."""
        name = body.text("model")
        if not embedder.is_called(name):
            await self._models.check(name)
        texts = dialect.texts(body)
        exchange.tell(model=embedder.name, state=RequestState.READING)
        async with exchange.kept_alive(dialect, embedder.name, stream=False):
            vectors = await embedder.embed(texts)
        await exchange.finish_at_once(dialect.whole(vectors, body), vectors.tokens)

    async def _write(
        self, exchange: Exchange, dialect: type[Dialect], body: Members, *, stream: bool
    ) -> None:
        """Wait for the request's turns, one for each completion, and write the response."""
        request: CompletionRequest | None = None
        writer: Dialect | None = None
        completions: list[Completion] = []
        async with exchange.kept_alive(dialect, body.text("model") or "", stream=stream):
            while request is None or len(completions) < len(request.chats):
                with await self._turn(exchange) as turn:
                    if request is None or writer is None:
                        model = await self._models.ready(body.text("model"))
                        request = _parse(exchange, dialect, body, model)
                        writer = dialect(request, model.name, exchange.status.id)
                    if not request.chats:  # the model was wanted, and nothing of it
                        break
                    writer.turn_to(place := len(completions))
                    chat, progress = request.chats[place], request.progress
                    work = Generation(self._dispatcher, chat, turn.close, progress=progress)
                    try:
                        done = await self._answer(exchange, writer, work, stream=stream)
                    except ApiError as error:
                        if not exchange.streams:
                            raise
                        await exchange.fail(writer, error)
                        return
                    completions.append(done)
        if writer is not None:
            await exchange.finish(writer, completions, stream=stream)

    async def _turn(self, exchange: Exchange) -> ExitStack:
        """Wait for a turn of the request."""
        asked = time.perf_counter()
        turn = await self._queue.enter(exchange.client)
        self._metrics.waited(time.perf_counter() - asked)
        return turn

    async def _answer(
        self, exchange: Exchange, writer: Dialect, work: Generation, *, stream: bool
    ) -> Completion:
        """Have one completion written; it is the request's turn."""
        async with work as generation:
            await generation.begin()
            exchange.tell(
                state=RequestState.READING,
                model=writer.model,
                prompt_tokens=generation.prompt_tokens,
            )
            done = await exchange.write(generation, writer, stream=stream)
        self._metrics.answered(done.finished.stats)
        return done

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: ApiError) -> None:
        """Refuse a request that was not let in."""
        await self._fail(Exchange(scope, receive, send, self._on_change), error)

    async def _fail(self, exchange: Exchange, error: Exception) -> None:
        """Respond with an error; only the kind of a defect is logged, its words may quote."""
        if not isinstance(error, ApiError):
            _log.error("a request failed: %s", type(error).__name__)
            error = ApiError(500, "Something went wrong inside Duotail.")
        path = exchange.status.path
        self._metrics.responded(_known(path), exchange.status.code or error.status)
        question = QUESTIONS.get(path)
        dialect = DIALECTS.get(path, ChatCompletions) if question is None else question.dialect
        await exchange.send_error(error, dialect)


def _path(path: str) -> str:
    """Return a path as the server knows it: clients are given the address with /v1, or without."""
    path = path.rstrip("/") or "/"
    return path.removeprefix("/v1") if path.startswith("/v1/v1/") else path


def _methods(path: str) -> tuple[str, ...]:
    """Return the methods that a path takes; none: there is nothing."""
    if path in DIALECTS or path in QUESTIONS or path == SHOW:
        return ("POST",)
    return ("GET", "HEAD") if path in PAGES or path.startswith(f"{MODELS}/") else ()


def _known(path: str) -> str:
    return path if path in DIALECTS or path in QUESTIONS or path in PAGES else _OTHER


def _parse(
    exchange: Exchange, dialect: type[Dialect], body: Members, model: ServedModel | None
) -> CompletionRequest:
    """Return what a request asks of a model; None: of one that is not loaded yet."""
    sampling = None if model is None else model.plan.sampling
    request = dialect.parse(body, exchange.status.id, sampling)
    chats = tuple(
        replace(each, clicked_at=exchange.arrived_at, asker=f"client {exchange.status.address}")
        for each in request.chats
    )
    return replace(request, chats=chats)


async def _body(exchange: Exchange) -> Members:
    """Return the body of a request."""
    request = Request(exchange.scope, exchange.receive)
    return parsed(decoded(await request.body(), request.headers))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
