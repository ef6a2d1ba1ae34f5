"""The model that a request names: the loaded one, or one that is loaded for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from engine.commands import Load
from engine.events import Event, Failed, PlanReady, Unloaded
from engine.hub.shelf.kept_model import names_of
from engine.server.api_error import ApiError, from_failure, no_model
from engine.server.dispatcher import OTHERS, Dispatcher, ServedModel
from engine.server.settings import ServerSettings

Catalogue = Callable[[], Mapping[str, Load]]
"""Finds the models on this computer: their names and how to load them. May read the disk."""
_WHICHEVER = (None, "", "default")
"""Names by which clients mean the loaded model."""


class ModelLoader:
    """Finds the model that a request names, and has it loaded where requests may do so.

    Args:
        dispatcher: the door to the engine.
        settings: by which other names requests may mean the loaded model.
        catalogue: models that requests may load; None: none.
    """

    def __init__(
        self, dispatcher: Dispatcher, settings: ServerSettings, catalogue: Catalogue | None = None
    ) -> None:
        self._dispatcher, self._catalogue = dispatcher, catalogue
        self._names = frozenset({*_WHICHEVER, *settings.aliases})
        self._any_name = settings.any_name

    async def others(self) -> Mapping[str, Load]:
        """Return the models that a request would load, by name."""
        if self._catalogue is None:
            return {}
        found, model = await asyncio.to_thread(self._catalogue), self._dispatcher.model
        return {name: load for name, load in found.items() if model is None or name != model.name}

    async def check(self, name: str | None) -> ServedModel | None:
        """Return the model if it is loaded, None if it can be.

        Raises:
            ApiError: neither.
        """
        model, name = self._dispatcher.model, _untagged(name)
        if model is not None and (name in self._names or _is_called(name, model)):
            return model
        if await self._other(name) is not None:
            return None
        if model is not None and self._any_name:
            return model
        if model is None:
            raise no_model()
        raise ApiError(
            404,
            f"The loaded model is {model.name}; requests can use no other one of this name.",
            code="model_not_found",
            param="model",
        )

    async def ready(self, name: str | None) -> ServedModel:
        """Return the model, loaded; it is the request's turn.

        Raises:
            ApiError: it is not here any more, or does not fit.
        """
        while (model := await self.check(name)) is None:
            load = await self._other(_untagged(name))
            if load is not None:
                return await self._load(load)
        return model

    async def _other(self, name: str | None) -> Load | None:
        """Return how the model of a name is loaded; None: there is none."""
        others, asked = await self.others(), (name or "").casefold()
        if (load := others.get(name or "")) is not None:
            return load
        called = (load for each, load in others.items() if asked in names_of(each, load.model))
        return next(called, None)

    async def _load(self, load: Load) -> ServedModel:
        """Load a model; answers of the window's user come to their end first."""
        events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            if isinstance(event, PlanReady | Unloaded | Failed):
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(events.put_nowait, event)

        self._dispatcher.listen(OTHERS, hear)
        try:
            self._dispatcher.submit(load)
            failure = None
            while isinstance(event := await events.get(), Failed):
                failure = event if event.request_id is None else failure
        finally:
            self._dispatcher.leave(OTHERS)
        model = self._dispatcher.model
        if isinstance(event, PlanReady) and event.model == load.model and model is not None:
            return model
        if failure is not None:
            raise from_failure(failure)
        raise ApiError(503, "The model was not loaded.", code="no_model", retry_after=5)


def _is_called(name: str | None, model: ServedModel) -> bool:
    return name is not None and (name == model.name or name.casefold() in model.names)


def _untagged(name: str | None) -> str | None:
    """Return a name without what Ollama's clients put behind every name."""
    return None if name is None else name.removesuffix(":latest")
