"""OpenAI's older text completions: a prompt without a chat template."""

from __future__ import annotations

import time
from collections.abc import Iterator
from time import perf_counter

from engine.request import ChatRequest, RawPrompt
from engine.server.asked import (
    MOST_ALTERNATIVES,
    Asked,
    ServedModel,
    check_model,
    length,
    new_id,
    sampling,
    stops,
)
from engine.server.dialects.dialect import Json, sse
from engine.server.dialects.logprobs import text_logprobs, tokens_said
from engine.server.dialects.usage import FINISH_REASONS, asks_for_usage, usage
from engine.server.generation import Answered
from engine.server.members import Members, well_formed
from engine.server.reasoning import AnswerPiece
from engine.server.refusal import HttpRefusal

_LENGTH = 16
"""Most tokens of an answer whose request says nothing, as OpenAI has it."""


class TextCompletions:
    """`/v1/completions`."""

    def read(self, body: Members, model: ServedModel) -> Asked:
        """Return what is asked."""
        check_model(body, model)
        body.only("n", 1)
        body.only("best_of", 1)
        body.only("echo", False)
        body.only("suffix", "")
        body.only("logit_bias", {})
        told = body.whole("logprobs", 0, MOST_ALTERNATIVES)
        asked = ChatRequest(
            new_id(),
            (),
            sampling(body, model),
            length(body, "max_tokens", default=_LENGTH),
            stops(body, "stop"),
            perf_counter(),
            raw=_prompt(body),
            alternatives=told or 0,
        )
        return Asked(
            asked,
            model.name,
            stream=bool(body.flag("stream")),
            usage=asks_for_usage(body),
            logprobs=told is not None,
        )

    def whole(self, asked: Asked, answer: Answered) -> Json:
        """Return an answer as one object."""
        told = text_logprobs(tokens_said(answer.pieces), 0) if asked.logprobs else None
        finished = answer.finished
        choice = _choice(answer.said, told, FINISH_REASONS[finished.reason])
        return _head(asked) | {
            "choices": [choice],
            "usage": usage(answer),
            "system_fingerprint": finished.signature,
            "seed": finished.seed,
        }

    def writer(self, asked: Asked) -> CompletionWriter:
        """Return what streams an answer."""
        return CompletionWriter(asked)

    def refusal(self, refusal: HttpRefusal) -> Json:
        """Return the body of a refusal."""
        return refusal.as_openai()


class CompletionWriter:
    """Streams a text completion."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._head = asked, _head(asked)
        self._offset = 0

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield nothing: the first piece says it all."""
        del prompt_tokens
        yield from ()

    def piece(self, piece: AnswerPiece) -> Iterator[bytes]:
        """Yield a piece of the answer."""
        told = text_logprobs(piece.tokens, self._offset) if self._asked.logprobs else None
        self._offset += len(piece.text)
        yield sse(self._head | {"choices": [_choice(piece.text, told, None)]})

    def end(self, answer: Answered) -> Iterator[bytes]:
        """Yield how it ended."""
        finished = answer.finished
        more: Json = {"system_fingerprint": finished.signature, "seed": finished.seed}
        last = _choice("", None, FINISH_REASONS[finished.reason])
        yield sse(self._head | more | {"choices": [last]})
        if self._asked.usage:
            yield sse(self._head | more | {"choices": [], "usage": usage(answer)})
        yield sse("[DONE]")

    def fail(self, refusal: HttpRefusal) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(refusal.as_openai())


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
    return RawPrompt(text, control_tokens=bool(body.flag("parse_special")))


def _choice(text: str, logprobs: Json | None, reason: str | None) -> Json:
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}


def _head(asked: Asked) -> Json:
    return {
        "id": f"cmpl-{asked.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": asked.model,
    }
