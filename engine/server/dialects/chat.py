"""OpenAI's chat completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from time import perf_counter

from engine.request import ChatRequest
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
from engine.server.conversation import messages
from engine.server.dialects.dialect import Json, sse
from engine.server.dialects.logprobs import chat_logprobs, tokens_said
from engine.server.dialects.usage import FINISH_REASONS, asks_for_usage, usage
from engine.server.generation import Answered
from engine.server.members import Members
from engine.server.reasoning import AnswerPiece
from engine.server.refusal import HttpRefusal


class ChatCompletions:
    """`/v1/chat/completions`."""

    def read(self, body: Members, model: ServedModel) -> Asked:
        """Return what is asked."""
        check_model(body, model)
        body.only("n", 1)
        body.only("tools", [])
        body.only("functions", [])
        body.only("modalities", ["text"])
        body.only("logit_bias", {})
        body.only("audio")
        if (form := body.inner("response_format")) is not None:
            form.only("type", "text")
        asked = ChatRequest(
            new_id(),
            messages(list(body.list("messages"))),
            sampling(body, model),
            length(body, "max_completion_tokens", "max_tokens"),
            stops(body, "stop"),
            perf_counter(),
            _thinking(body),
            alternatives=_alternatives(body) or 0,
        )
        return Asked(
            asked,
            model.name,
            stream=bool(body.flag("stream")),
            usage=asks_for_usage(body),
            logprobs=bool(body.flag("logprobs")),
        )

    def whole(self, asked: Asked, answer: Answered) -> Json:
        """Return an answer as one object."""
        message: Json = {"role": "assistant", "content": answer.said, "refusal": None}
        if answer.thought:
            message["reasoning_content"] = answer.thought
        told = chat_logprobs(tokens_said(answer.pieces)) if asked.logprobs else None
        choice = {
            "index": 0,
            "message": message,
            "logprobs": told,
            "finish_reason": FINISH_REASONS[answer.finished.reason],
        }
        return _head(asked, "chat.completion", int(time.time())) | {
            "choices": [choice],
            "usage": usage(answer),
            "system_fingerprint": answer.finished.signature,
            "seed": answer.finished.seed,
        }

    def writer(self, asked: Asked) -> ChatWriter:
        """Return what streams an answer."""
        return ChatWriter(asked)

    def refusal(self, refusal: HttpRefusal) -> Json:
        """Return the body of a refusal."""
        return refusal.as_openai()


class ChatWriter:
    """Streams a chat completion."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._head = _head(asked, "chat.completion.chunk", int(time.time()))

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield who speaks."""
        del prompt_tokens
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, piece: AnswerPiece) -> Iterator[bytes]:
        """Yield a piece of the answer."""
        if piece.thought:
            yield self._chunk({"reasoning_content": piece.text})
        elif self._asked.logprobs:
            yield self._chunk({"content": piece.text}, logprobs=chat_logprobs(piece.tokens))
        else:
            yield self._chunk({"content": piece.text})

    def end(self, answer: Answered) -> Iterator[bytes]:
        """Yield how it ended."""
        finished = answer.finished
        more: Json = {"system_fingerprint": finished.signature, "seed": finished.seed}
        yield self._chunk({}, reason=FINISH_REASONS[finished.reason], more=more)
        if self._asked.usage:
            yield sse(self._head | more | {"choices": [], "usage": usage(answer)})
        yield sse("[DONE]")

    def fail(self, refusal: HttpRefusal) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(refusal.as_openai())

    def _chunk(
        self,
        delta: Json,
        *,
        reason: str | None = None,
        logprobs: Json | None = None,
        more: Json | None = None,
    ) -> bytes:
        choice: Json = {
            "index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason,
        }  # fmt: skip
        usage_to_come: Json = {"usage": None} if self._asked.usage else {}
        return sse(self._head | (more or {}) | {"choices": [choice]} | usage_to_come)


def _head(asked: Asked, kind: str, created: int) -> Json:
    return {
        "id": f"chatcmpl-{asked.id}", "object": kind, "created": created, "model": asked.model,
    }  # fmt: skip


def _alternatives(body: Members) -> int | None:
    wanted = body.whole("top_logprobs", 0, MOST_ALTERNATIVES)
    if wanted is not None and not body.flag("logprobs"):
        raise body.wrong("logprobs", "true where top_logprobs are wanted")
    return wanted


def _thinking(body: Members) -> bool | None:
    """Return whether to think: as vLLM's clients say it, or by an effort of none."""
    switches = body.inner("chat_template_kwargs")
    if switches is not None:
        said = switches.flag("enable_thinking")
        return switches.flag("thinking") if said is None else said
    effort = body.text("reasoning_effort")
    return False if effort == "none" else None
