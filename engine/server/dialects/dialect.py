"""The interface that every dialect has, and how its streams are written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from engine.server.asked import Asked, ServedModel
from engine.server.generation import Answered
from engine.server.members import Members
from engine.server.reasoning import AnswerPiece
from engine.server.refusal import HttpRefusal

Json = dict[str, object]


class EventWriter(Protocol):
    """Writes one answer as server-sent events."""

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield what comes before the first piece."""
        ...

    def piece(self, piece: AnswerPiece) -> Iterator[bytes]:
        """Yield a piece of the answer."""
        ...

    def end(self, answer: Answered) -> Iterator[bytes]:
        """Yield how it ended."""
        ...

    def fail(self, refusal: HttpRefusal) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        ...


class Dialect(Protocol):
    """Reads requests and writes answers."""

    def read(self, body: Members, model: ServedModel) -> Asked:
        """Return what is asked. Raises HttpRefusal where it is not understood or supported."""
        ...

    def whole(self, asked: Asked, answer: Answered) -> Json:
        """Return an answer as one object."""
        ...

    def writer(self, asked: Asked) -> EventWriter:
        """Return what streams an answer."""
        ...

    def refusal(self, refusal: HttpRefusal) -> Json:
        """Return the body of a refusal."""
        ...


def sse(data: Json | str, name: str = "") -> bytes:
    """Return a server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()
