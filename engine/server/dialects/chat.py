"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.request import ChatRequest, SamplingParams, ToolCall
from engine.server.completion_request import (
    MOST_ALTERNATIVES,
    MOST_COMPLETIONS,
    CompletionRequest,
    bias,
    length,
    sampling,
    several,
    stops,
)
from engine.server.conversation import messages
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.logprobs import chat_logprobs, content_tokens
from engine.server.dialects.usage import (
    asks_for_progress,
    asks_for_usage,
    finish_reason,
    joined,
    provenance,
    usage,
    usage_of_all,
    usage_so_far,
)
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.progress import CompletionProgress
from engine.server.reasoning import CallPart, CompletionDelta
from engine.server.structured import wanted_grammar
from engine.server.thinking import thinking_wish
from engine.server.tools import offered


class ChatCompletions(Dialect):
    """`/v1/chat/completions`."""

    _calls = 0
    """Tool calls that were streamed."""

    def turn_to(self, choice: int) -> None:
        """Go on to another completion of the request."""
        super().turn_to(choice)
        self._calls = 0

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        n = body.whole("n", 1, MOST_COMPLETIONS) or 1
        body.only("modalities", ["text"])
        body.only("audio")
        body.only("web_search_options")
        wish = thinking_wish(body)
        chat = ChatRequest(
            request_id,
            messages(list(body.list("messages"))),
            sampling(body, recommended),
            length(body, "max_completion_tokens", "max_tokens"),
            stops(body, "stop"),
            thinking=wish.on,
            effort=wish.effort,
            grammar=wanted_grammar(body, body.inner("response_format")),
            tools=offered(body),
            thought_tokens=wish.budget,
            bias=bias(body),
            alternatives=_alternatives(body) or 0,
        )
        return CompletionRequest(
            several([chat], n),
            stream=bool(body.flag("stream")),
            usage=asks_for_usage(body),
            progress=asks_for_progress(body),
            logprobs=bool(body.flag("logprobs")),
            n=n,
        )

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        message: Json = {"role": "assistant", "content": completion.content, "refusal": None}
        if completion.calls:
            message["content"] = completion.content or None
            message["tool_calls"] = [_call(call) for call in completion.calls]
        if completion.reasoning:
            message["reasoning_content"] = completion.reasoning
        tokens = content_tokens(completion.deltas)
        choice = {
            "index": self._choice,
            "message": message,
            "logprobs": chat_logprobs(tokens) if self._request.logprobs else None,
            "finish_reason": finish_reason(completion),
        }
        counts: Json = {"choices": [choice], "usage": usage(completion)}
        return self._head("chat.completion") | counts | provenance(completion)

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all completions of the request as one object."""
        return joined(self, completions, self._request.n)

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield who speaks."""
        del prompt_tokens
        yield self._chunk({"role": "assistant", "content": ""})

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""
        if delta.call is not None:
            yield from self._called(delta.call, delta)
        elif delta.reasoning:
            yield self._chunk({"reasoning_content": delta.text})
        elif self._request.logprobs:
            yield self._chunk({"content": delta.text}, logprobs=chat_logprobs(delta.tokens))
        else:
            yield self._chunk({"content": delta.text})

    def _called(self, call: ToolCall, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield a part of a call."""
        place: Json = {"index": self._calls}
        if delta.part is CallPart.BEGIN:
            yield self._chunk({"tool_calls": [place | _call(replace(call, arguments=""))]})
        elif delta.part is CallPart.ARGUMENTS:
            more: Json = {"function": {"arguments": delta.text}}
            yield self._chunk({"tool_calls": [place | more]})
        else:
            self._calls += 1

    def progress(self, progress: CompletionProgress) -> Iterator[bytes]:
        """Yield its counts so far."""
        counts: Json = {"choices": [], "usage": usage_so_far(progress)}
        yield sse(self._head("chat.completion.chunk") | counts)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        yield self._chunk({}, reason=finish_reason(completion), more=provenance(completion))

    def close(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """Yield the counts, where they are wanted."""
        if self._request.usage:
            counts: Json = {"choices": [], "usage": usage_of_all(completions, self._request.n)}
            more = provenance(completions[0])
            yield sse(self._head("chat.completion.chunk") | more | counts)
        yield sse("[DONE]")

    def _chunk(
        self,
        delta: Json,
        *,
        reason: str | None = None,
        logprobs: Json | None = None,
        more: Json | None = None,
    ) -> bytes:
        choice: Json = {
            "index": self._choice, "delta": delta, "logprobs": logprobs, "finish_reason": reason,
        }  # fmt: skip
        usage_to_come: Json = {"usage": None} if self._request.usage else {}
        head = self._head("chat.completion.chunk")
        return sse(head | (more or {}) | {"choices": [choice]} | usage_to_come)

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self._id}",
            "object": kind,
            "created": self._created,
            "model": self._model,
        }


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _alternatives(body: Members) -> int | None:
    wanted = body.whole("top_logprobs", 0, MOST_ALTERNATIVES)
    if wanted and not body.flag("logprobs"):
        raise body.wrong("logprobs", "true where top_logprobs are wanted")
    return wanted
