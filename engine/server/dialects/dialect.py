"""The interface that every dialect has, and how its streams are written down."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

from engine.request import SamplingParams
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest
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
    """

    def __init__(self, request: CompletionRequest, model: str) -> None:
        self._request, self._model = request, model
        self._id, self._created = request.id, int(time.time())

    @staticmethod
    @abstractmethod
    def parse(
        body: Members, request_id: str, recommended: SamplingParams | None
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

    @abstractmethod
    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""

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

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(self.error(error))


def sse(data: Json | str, name: str = "") -> bytes:
    """Return a server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()
