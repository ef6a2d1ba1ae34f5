"""What the server tells of itself and its models, in the words of several interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256

from starlette.responses import JSONResponse, PlainTextResponse, Response

from engine.server.api_error import ApiError
from engine.server.dialects.dialect import Json
from engine.server.dispatcher import Dispatcher, ServedModel
from engine.server.embedder import Embedder
from engine.server.members import Members
from engine.server.metrics import CONTENT_TYPE, ServerMetrics
from engine.server.models import ModelLoader
from engine.server.queue import RequestQueue

MODELS = "/v1/models"
SHOW = "/api/show"
"""Ollama's page of a model, which is asked for with a body."""
PAGES = frozenset({"/", "/health", "/metrics", MODELS, "/api/tags", "/api/ps", "/api/version"})
_OLLAMA_VERSION = "0.13.0"
"""The version of Ollama's interface that is spoken."""


class ServerPages:
    """Answers requests that need no turn.

    Args:
        dispatcher: knows the loaded model.
        models: knows those that requests may load.
        metrics: the counts.
        queue: the requests that wait.
        embedder: the model that embeds, where there is one.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        models: ModelLoader,
        metrics: ServerMetrics,
        queue: RequestQueue,
        embedder: Embedder | None = None,
    ) -> None:
        self._dispatcher, self._models = dispatcher, models
        self._metrics, self._queue, self._embedder = metrics, queue, embedder

    async def page(self, path: str) -> Response:
        """Return the response to a GET.

        Raises:
            ApiError: there is no such model.
        """
        loaded = self._dispatcher.model
        match path:
            case "/":
                return PlainTextResponse("Duotail is running")
            case "/health" if loaded is None:
                return JSONResponse({"status": "no model"}, 503)
            case "/health":
                return JSONResponse({"status": "ok"})
            case "/metrics":
                text = self._metrics.text(self._queue.running, self._queue.waiting)
                return PlainTextResponse(text, media_type=CONTENT_TYPE)
            case "/api/version":
                return JSONResponse({"version": _OLLAMA_VERSION})
            case "/api/ps":
                return JSONResponse(
                    {"models": [] if loaded is None else [_tag(loaded.name, loaded)]}
                )
        models = await self._known()
        if path == "/api/tags":
            return JSONResponse({"models": [_tag(*each) for each in models.items()]})
        if path == MODELS:
            data = [_card(*each) for each in models.items()]
            told = {"object": "list", "data": data, "has_more": False}
            return JSONResponse(told | {"first_id": _id(data, 0), "last_id": _id(data, -1)})
        name = path.removeprefix(f"{MODELS}/")
        if name not in models:
            raise ApiError(404, "There is no such model.", code="model_not_found")
        return JSONResponse(_card(name, models[name]))

    async def show(self, body: Members) -> Response:
        """Return what Ollama's clients ask of a model.

        Raises:
            ApiError: there is none of that name.
        """
        name = body.text("model") or body.text("name")
        told: Json = {"modelfile": "", "parameters": "", "template": "", "details": _DETAILS}
        if self._embedder is not None and name == self._embedder.name:
            return JSONResponse(told | {"model_info": {}, "capabilities": ["embedding"]})
        model = await self._models.check(name)
        context = {} if model is None else {"duotail.context_length": model.plan.context}
        information = {"general.architecture": "duotail", "general.basename": name, **context}
        can = ["completion", "tools", "embedding"]
        if model is not None and model.plan.can_think:
            can.append("thinking")
        return JSONResponse(told | {"model_info": information, "capabilities": can})

    async def _known(self) -> Mapping[str, ServedModel | None]:
        """Return the models by name; None: one that is not loaded."""
        loaded = self._dispatcher.model
        own: dict[str, ServedModel | None] = {} if loaded is None else {loaded.name: loaded}
        own |= dict.fromkeys(await self._models.others())
        return own if self._embedder is None else own | {self._embedder.name: None}


_DETAILS: Json = {
    "parent_model": "", "format": "gguf", "family": "duotail", "families": ["duotail"],
    "parameter_size": "", "quantization_level": "",
}  # fmt: skip


def _tag(name: str, model: ServedModel | None) -> Json:
    """Return what Ollama's clients are told of a model."""
    since = datetime.fromtimestamp(0 if model is None else model.since, UTC)
    tag: Json = {
        "name": name,
        "model": name,
        "modified_at": since.isoformat(),
        "size": 0 if model is None else model.plan.target_bytes,
        "digest": sha256(name.encode()).hexdigest(),
        "details": _DETAILS,
    }
    if model is None:
        return tag
    return tag | {"context_length": model.plan.context, "size_vram": 0}


def _card(name: str, model: ServedModel | None) -> Json:
    """Return what other clients are told of a model: most of it is known once it is loaded."""
    card: Json = {
        "id": name, "object": "model", "type": "model", "display_name": name, "created": 0,
        "created_at": _EPOCH, "owned_by": "duotail", "mode": None,
    }  # fmt: skip
    if model is None:
        return card
    plan = model.plan
    return card | {
        "created": model.since,
        "created_at": datetime.fromtimestamp(model.since, UTC).isoformat(),
        "context_length": plan.context,
        "max_model_len": plan.context,
        "mode": str(plan.mode),
        "draft": plan.draft,
    }


_EPOCH = datetime.fromtimestamp(0, UTC).isoformat()


def _id(cards: list[Json], place: int) -> object:
    return cards[place]["id"] if cards else None
