"""Server-sent events of a chat completion, and what they say."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

LONGEST_EVENT = 1 << 20
"""Most characters of one event; a token takes a few hundred."""
DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r(?!$)")
"""A carriage return at the very end may be the first half of a line end."""
_MOST = 1 << 53


class BadStream(ValueError):
    """The stream of no chat completion."""


class ServerSaid(Exception):
    """The server tells of an error of its own; the text is its message."""


class EventStream:
    """Splits bytes into the data of server-sent events, in whatever pieces they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = self._name = ""
        self._data: list[str] = []
        self._begins = True

    def feed(self, more: bytes) -> Iterator[str]:
        """Yield the data of the events that these bytes complete.

        Raises:
            BadStream: an event is far too long.
        """
        text = self._rest + self._decoder.decode(more)
        if self._begins and text:
            text, self._begins = text.removeprefix("\ufeff"), False
        *lines, self._rest = _LINE_END.split(text)
        if len(self._rest) + sum(map(len, self._data)) > LONGEST_EVENT:
            raise BadStream("an event without an end")
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                yield self._event()

    def finish(self) -> Iterator[str]:
        """Yield the data of an event that the end of the stream completes."""
        if self._rest.rstrip("\r"):
            self._take(self._rest.rstrip("\r"))
        if self._data:
            yield self._event()

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value.strip()

    def _event(self) -> str:
        data, name = "\n".join(self._data), self._name
        self._data, self._name = [], ""
        return _as_error(data) if name == "error" else data


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of an answer so far, as a server tells them; None: it does not.

    Attributes:
        prompt: tokens of the prompt, `cached` of them from a cache.
        completion: tokens of the answer.
        tokens_per_s: the server's own figure, like those that follow.
        drafted: drafted tokens, `accepted` of them accepted.
        rounds: forward passes, `plain_rounds` of them without a drafted token.
    """

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    tokens_per_s: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    rounds: int | None = None
    plain_rounds: int | None = None
    acceptance_length: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a tool call; what it does not say is empty.

    Attributes:
        index: which call of the answer; None: the server does not number them.
        id: of the call, with its first piece.
        name: of the tool, with the first piece.
        arguments: text of the arguments that came.
    """

    index: int | None
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One step of an answer.

    Attributes:
        said, thought: text that came.
        calls: pieces of tool calls that came.
        reason: why the answer ended, in the server's word; None while it goes on.
        counts: None where the chunk tells none.
    """

    said: str = ""
    thought: str = ""
    reason: str | None = None
    counts: Counts | None = None
    calls: tuple[CallPiece, ...] = ()


def read_chunk(data: str, *, streamed: bool = False) -> Chunk:
    """Return what the data of an event say; members that are not known are ignored.

    Of a stream, events that say something else than an answer are nothing.

    Raises:
        BadStream: it is not JSON, or no chunk.
        ServerSaid: it is an error of the server's.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise BadStream("not JSON") from None
    if not isinstance(body, dict):
        raise BadStream("not an object")
    if (said := error_message(body)) is not None:
        raise ServerSaid(said)
    choices = body.get("choices")
    if not isinstance(choices, list):
        if streamed and choices is None:
            return Chunk(counts=_counts(body))
        raise BadStream("no choices")
    choice = _object(choices[0] if choices else None)
    delta = _object(choice.get("delta")) or _object(choice.get("message"))  # whole, if not streamed
    reason = choice.get("finish_reason")
    return Chunk(
        _text(delta.get("content")) or _text(delta.get("refusal")),
        _text(delta.get("reasoning_content")) or _text(delta.get("reasoning")),
        reason if isinstance(reason, str) else None,
        _counts(body),
        tuple(map(_call, _list(delta.get("tool_calls")))),
    )


def error_message(body: object) -> str | None:
    """Return the message of an error's body, in the shapes that servers use; None: it is none."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error.get("type") or ""
    elif error is None and (body.get("object") == "error" or "detail" in body):
        error = body.get("message") or body.get("detail")
    return None if error is None else str(error)


def _counts(body: dict[str, object]) -> Counts | None:
    usage, timings = _object(body.get("usage")), _object(body.get("timings"))
    if not usage and not timings:
        return None
    details, own = _object(usage.get("prompt_tokens_details")), _object(usage.get("speculation"))
    told = Counts(
        prompt=_whole(usage.get("prompt_tokens")),
        cached=_whole(details.get("cached_tokens")),
        completion=_whole(usage.get("completion_tokens")),
        tokens_per_s=_number(own.get("tokens_per_s")),
        drafted=_whole(own.get("drafted")),
        accepted=_whole(own.get("accepted")),
        rounds=_whole(own.get("rounds")),
        plain_rounds=_whole(own.get("plain_rounds")),
        acceptance_length=_number(own.get("acceptance_length")),
        draft_s=_number(own.get("draft_s")),
        verify_s=_number(own.get("verify_s")),
    )
    return _with_timings(told, timings) if timings else told


def _with_timings(told: Counts, timings: dict[str, object]) -> Counts:
    """Add what llama-server tells of its work."""
    cached, read = _whole(timings.get("cache_n")), _whole(timings.get("prompt_n"))
    return replace(
        told,
        prompt=read + (cached or 0) if told.prompt is None and read is not None else told.prompt,
        cached=cached if told.cached is None else told.cached,
        completion=_whole(timings.get("predicted_n")) or told.completion,
        tokens_per_s=_number(timings.get("predicted_per_second")),
        drafted=_whole(timings.get("draft_n")),
        accepted=_whole(timings.get("draft_n_accepted")),
    )


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """Return a text, or the texts of a list of parts."""
    if isinstance(value, list):
        return "".join(_text(_object(part).get("text")) for part in value)
    return value if isinstance(value, str) else ""


def _call(told: object) -> CallPiece:
    call = _object(told)
    function, said = _object(call.get("function")), call.get("id")
    arguments = function.get("arguments")
    text = json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)
    return CallPiece(
        _whole(call.get("index")), said if isinstance(said, str) else "",
        _text(function.get("name")), text,
    )  # fmt: skip


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _as_error(data: str) -> str:
    """Return the data of an event that is named an error in the shape of one."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = data
    if error_message(body) is not None:
        return data
    said = _object(body).get("message") or data
    return json.dumps({"error": {"message": str(said)}})


def _whole(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return value if fits and isinstance(value, int) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST else None
