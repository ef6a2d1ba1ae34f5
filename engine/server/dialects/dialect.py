"""The interface that every dialect has, and how its streams are written down."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from engine.events import PromptRead
from engine.request import ChatRequest, SamplingParams
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest
from engine.server.dispatcher import ID_PREFIX
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.progress import CompletionProgress
from engine.server.reasoning import CompletionDelta

Json = dict[str, object]


class Dialect(ABC):
    """Writes the response to one request; `parse` reads the request.

    Args:
        request: as it was parsed.
        model: name of the model that answers.
        request_id: of the request.
    """

    media_type = "text/event-stream; charset=utf-8"
    """Content type of its streams."""

    def __init__(self, request: CompletionRequest, model: str, request_id: str) -> None:
        self._request, self._model = request, model
        self._id, self._created = request_id.removeprefix(ID_PREFIX), int(time.time())
        self._choice = 0

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        return self._model

    def turn_to(self, choice: int) -> None:
        """Go on to another completion of the request, by its place in `chats`."""
        self._choice = choice

    @property
    def _chat(self) -> ChatRequest:
        """The request of the completion that is being written."""
        return self._request.chats[self._choice]

    @classmethod
    @abstractmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for.

        Args:
            body: of the request.
            request_id: for the engine.
            recommended: sampling that the model's own files recommend.

        Raises:
            ApiError: it is not understood or not supported.
        """

    @staticmethod
    def error(error: ApiError) -> Json:
        """Return the body of an error."""
        return error.to_openai()

    @staticmethod
    def ping(model: str) -> bytes:
        """Return what a stream sends that has nothing to say yet; `model`: as it was requested."""
        del model
        return b": ping\n\n"

    @classmethod
    def broken(cls, error: ApiError) -> bytes:
        """Return what a stream ends with that comes to nothing before its first completion."""
        return sse(cls.error(error), "error")

    @abstractmethod
    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all completions of the request as one object."""
        return self.response(completions[0])

    def prompt(self, read: PromptRead) -> Iterator[bytes]:
        """Yield the prompt, where it is wanted."""
        del read
        yield from ()

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield what a stream has before the first delta."""
        del prompt_tokens
        yield from ()

    @abstractmethod
    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""

    def progress(self, progress: CompletionProgress) -> Iterator[bytes]:
        """Yield how far the completion is, where the dialect has words for it."""
        del progress
        yield from ()

    @abstractmethod
    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""

    def close(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """Yield what a stream ends with, after all of its completions."""
        del completions
        yield from ()

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(self.error(error))


def sse(data: Json | str, name: str = "") -> bytes:
    """Return a server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()
