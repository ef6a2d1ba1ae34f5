"""Ollama's chat and generate: a JSON object a line, arguments of calls as objects."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from engine.request import ChatRequest, Message, RawPrompt, Role, SamplingParams, ToolCall
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest, length, sampling, stops
from engine.server.conversation import messages
from engine.server.dialects.anthropic import arguments_of
from engine.server.dialects.dialect import Dialect, Json
from engine.server.dialects.usage import FINISH_REASONS, speculation
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CallPart, CompletionDelta
from engine.server.structured import wanted_grammar
from engine.server.thinking import thinking_wish
from engine.server.tools import offered

_FOR_EVER = -1
_FILL = -2
"""Ollama's words for a length that is not limited."""


class _Ollama(Dialect):
    """Reads and writes what both have in common."""

    media_type = "application/x-ndjson"

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for; nothing where the model is only to be loaded."""
        options = body.inner("options") or Members({})
        body.only("images", [])
        wish = thinking_wish(body)
        most = options.raw("num_predict")
        chat = ChatRequest(
            request_id,
            (),
            sampling(options, recommended),
            None if most in (_FOR_EVER, _FILL) else length(options, "num_predict"),
            stops(options, "stop"),
            thinking=wish.on,
            effort=wish.effort,
            grammar=wanted_grammar(_form(body)),
            tools=offered(body),
        )
        asked = cls._asked(body, chat)
        streams = body.flag("stream") is not False
        return CompletionRequest(() if asked is None else (asked,), stream=streams)

    @classmethod
    @abstractmethod
    def _asked(cls, body: Members, chat: ChatRequest) -> ChatRequest | None:
        """Return a request with what is to be answered; None: nothing is."""

    @abstractmethod
    def _said(self, text: str, thought: str, calls: Sequence[ToolCall]) -> Json:
        """Return a stretch of an answer."""

    @staticmethod
    def error(error: ApiError) -> Json:
        """Return the body of an error."""
        return error.to_ollama()

    @classmethod
    def broken(cls, error: ApiError) -> bytes:
        """Return what a stream ends with that comes to nothing before its first completion."""
        return _line(cls.error(error))

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        said = self._said(completion.content, completion.reasoning, completion.calls)
        return self._head() | said | _ended(completion)

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return the completion; without one, that the model is loaded."""
        if completions:
            return self.response(completions[0])
        return self._head() | self._said("", "", ()) | {"done": True, "done_reason": "load"}

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""
        text, thought = ("", delta.text) if delta.reasoning else (delta.text, "")
        calls = () if delta.call is None else (delta.call,)
        if calls and delta.part is not CallPart.WHOLE:
            return
        text = "" if calls else text
        yield _line(self._head() | self._said(text, thought, calls) | {"done": False})

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        yield _line(self._head() | self._said("", "", ()) | _ended(completion))

    def close(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """Yield that the model is loaded, where nothing was to be answered."""
        if not completions:
            yield _line(self.joined(completions))

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield _line(self.error(error))

    def _head(self) -> Json:
        return {"model": self._model, "created_at": _now()}


class OllamaChat(_Ollama):
    """`/api/chat`."""

    @staticmethod
    def ping(model: str) -> bytes:
        """Return a message that says nothing."""
        said = {"message": {"role": "assistant", "content": ""}, "done": False}
        return _line({"model": model, "created_at": _now()} | said)

    @classmethod
    def _asked(cls, body: Members, chat: ChatRequest) -> ChatRequest | None:
        turns = list(body.list("messages"))
        for turn in turns:
            turn.only("images", [])
        return replace(chat, messages=messages(turns)) if turns else None

    def _said(self, text: str, thought: str, calls: Sequence[ToolCall]) -> Json:
        message: Json = {"role": "assistant", "content": text}
        if thought:
            message["thinking"] = thought
        if calls:
            message["tool_calls"] = [
                {"function": {"name": call.name, "arguments": arguments_of(call)}} for call in calls
            ]
        return {"message": message}


class OllamaGenerate(_Ollama):
    """`/api/generate`: a prompt in the model's template, or as it stands."""

    @staticmethod
    def ping(model: str) -> bytes:
        """Return an answer that says nothing."""
        return _line({"model": model, "created_at": _now(), "response": "", "done": False})

    @classmethod
    def _asked(cls, body: Members, chat: ChatRequest) -> ChatRequest | None:
        body.only("template", "")
        text, suffix, system = body.text("prompt"), body.text("suffix"), body.text("system")
        if not text:
            return None
        if suffix or body.flag("raw"):
            raw = RawPrompt(text, control_tokens=not suffix, suffix=suffix or None)
            return replace(chat, raw=raw)
        before = (Message(Role.SYSTEM, system),) if system else ()
        return replace(chat, messages=(*before, Message(Role.USER, text)))

    def _said(self, text: str, thought: str, calls: Sequence[ToolCall]) -> Json:
        del calls  # nothing is offered here that could be called
        said: Json = {"response": text}
        return said | {"thinking": thought} if thought else said


def _form(body: Members) -> Members:
    """Return `format` by the name that other programs have: "json", or a schema."""
    value = body.raw("format")
    if value in (None, "", "json"):
        return Members({"json_schema": {"type": "object"} if value else None})
    return Members({"json_schema": body.inner("format") and value}, "format")


def _ended(completion: Completion) -> Json:
    """Return how a completion ended, times in nanoseconds."""
    finished = completion.finished
    stats = finished.stats
    return {
        "done": True,
        "done_reason": FINISH_REASONS[finished.reason],
        "total_duration": round(1e9 * stats.seconds),
        "load_duration": 0,
        "prompt_eval_count": stats.prompt_tokens,
        "prompt_eval_duration": round(1e9 * (stats.ttft_s or 0)),
        "eval_count": stats.committed,
        "eval_duration": round(1e9 * stats.decode_seconds),
        "seed": finished.seed,
        "speculation": speculation(finished),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _line(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
