"""OpenAI's older text completions: a prompt without a chat template."""

from __future__ import annotations

from collections.abc import Iterator

from engine.request import ChatRequest, RawPrompt, SamplingParams
from engine.server.completion_request import (
    MOST_ALTERNATIVES,
    CompletionRequest,
    length,
    sampling,
    stops,
)
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.logprobs import content_tokens, text_logprobs
from engine.server.dialects.usage import FINISH_REASONS, asks_for_usage, provenance, usage
from engine.server.generation import Completion
from engine.server.members import Members, well_formed
from engine.server.reasoning import CompletionDelta
from engine.server.structured import wanted_grammar

_LENGTH = 16
"""Most tokens of a completion whose request says nothing, as OpenAI has it."""


class TextCompletions(Dialect):
    """`/v1/completions`."""

    _offset = 0
    """Characters that were streamed."""

    @staticmethod
    def parse(
        body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        body.only("n", 1)
        body.only("best_of", 1)
        body.only("echo", False)
        body.only("suffix", "")
        alternatives = body.whole("logprobs", 0, MOST_ALTERNATIVES)
        chat = ChatRequest(
            request_id,
            (),
            sampling(body, recommended),
            length(body, "max_tokens", default=_LENGTH),
            stops(body, "stop"),
            raw=_prompt(body),
            grammar=wanted_grammar(body, body.inner("response_format")),
            alternatives=alternatives or 0,
        )
        return CompletionRequest(
            chat,
            stream=bool(body.flag("stream")),
            usage=asks_for_usage(body),
            logprobs=alternatives is not None,
        )

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        logprobs = text_logprobs(content_tokens(completion.deltas), 0)
        reason = FINISH_REASONS[completion.finished.reason]
        choice = _choice(completion.content, logprobs if self._request.logprobs else None, reason)
        counts: Json = {"choices": [choice], "usage": usage(completion)}
        return self._head() | counts | provenance(completion)

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""
        logprobs = text_logprobs(delta.tokens, self._offset) if self._request.logprobs else None
        self._offset += len(delta.text)
        yield sse(self._head() | {"choices": [_choice(delta.text, logprobs, None)]})

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        head = self._head() | provenance(completion)
        last = _choice("", None, FINISH_REASONS[completion.finished.reason])
        yield sse(head | {"choices": [last]})
        if self._request.usage:
            yield sse(head | {"choices": [], "usage": usage(completion)})
        yield sse("[DONE]")

    def _head(self) -> Json:
        return {
            "id": f"cmpl-{self._id}",
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
        }


def _prompt(body: Members) -> RawPrompt:
    """Return the prompt: a text or token ids, alone or as the only one of a list."""
    value = body.raw("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, list):
        if not value or not all(type(each) is int and 0 <= each < 2**31 for each in value):
            raise body.wrong("prompt", "one text, or one list of token ids")
        return RawPrompt(ids=tuple(value))
    text = well_formed(value, "prompt")
    return RawPrompt(text, control_tokens=body.flag("parse_special") is not False)


def _choice(text: str, logprobs: Json | None, reason: str | None) -> Json:
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
