"""Anthropic's messages: text, tools and their results in; text, thinking and calls out."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engine.events import FinishReason
from engine.request import ChatRequest, Message, Role, SamplingParams, ToolCall
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest, bias, length, sampling, stops
from engine.server.conversation import content, messages
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.usage import usage_of_message
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CallPart, CompletionDelta
from engine.server.structured import wanted_grammar
from engine.server.thinking import thinking_wish
from engine.server.tools import offered

_FIRST = ("user", "assistant")
_ROLES = (*_FIRST, "system")
"""Roles in a conversation; Claude Code tells of its surroundings in the system's words."""


def _asked_last(turns: list[Members]) -> list[Members]:
    """Put the system's words before those of the user's that they follow: these are to be answered.

    Small models take the last words for the question.
    """
    found: list[Members] = []
    for turn in turns:
        late = turn.raw("role") == "system" and found and found[-1].raw("role") == "user"
        found.insert(len(found) - bool(late), turn)
    return found


class AnthropicMessages(Dialect):
    """`/v1/messages`; its streams are blocks of content, one after the other."""

    _index = -1
    _kind = ""
    """Number of the last block that was streamed, and its kind while it goes on."""

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        body.only("mcp_servers", [])
        wanted = body.inner("output_config")
        form = body.inner("output_format") if wanted is None else wanted.inner("format")
        most = length(body, "max_tokens")
        if most is None:
            raise body.wrong("max_tokens", "a whole number of 1 or more")
        turns = list(body.list("messages"))
        for place, turn in enumerate(turns):
            if turn.raw("role") not in (_ROLES if place else _FIRST):
                raise turn.wrong("role", "user or assistant")
        system = content(body, "system", empty=True)
        before = (Message(Role.SYSTEM, system),) if system else ()
        wish = thinking_wish(body)
        chat = ChatRequest(
            request_id,
            (*before, *messages(_asked_last(turns))),
            sampling(body, recommended),
            most,
            stops(body, "stop_sequences"),
            thinking=wish.on,
            effort=wish.effort,
            grammar=wanted_grammar(body, form),
            tools=offered(body),
            thought_tokens=wish.budget,
            bias=bias(body),
        )
        return CompletionRequest((chat,), stream=bool(body.flag("stream")))

    @staticmethod
    def error(error: ApiError) -> Json:
        """Return the body of an error."""
        return error.to_anthropic()

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        blocks = [_block("thinking", completion.reasoning)] if completion.reasoning else []
        if completion.content or not completion.calls:
            blocks.append(_block("text", completion.content))
        blocks += [_call(call) | {"input": arguments_of(call)} for call in completion.calls]
        return self._head() | self._stop(completion) | {
            "content": blocks,
            "usage": usage_of_message(completion),
            "seed": completion.finished.seed,
        }  # fmt: skip

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield a message without content."""
        usage = {"input_tokens": prompt_tokens, "output_tokens": 0}
        empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield self._event("message_start", message=self._head() | empty)

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield a stretch of the completion, behind the beginning of a block where one begins."""
        if delta.call is not None:
            if delta.part is CallPart.BEGIN:
                yield from self._open("tool_use", _call(delta.call))
            elif delta.part is CallPart.ARGUMENTS:
                told = {"type": "input_json_delta", "partial_json": delta.text}
                yield self._event("content_block_delta", index=self._index, delta=told)
            else:
                yield from self._close()
            return
        kind = "thinking" if delta.reasoning else "text"
        if kind != self._kind:
            yield from self._open(kind, _block(kind, ""))
        told = {"type": f"{kind}_delta", kind: delta.text}
        yield self._event("content_block_delta", index=self._index, delta=told)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        if self._index < 0:
            yield from self._open("text", _block("text", ""))
        yield from self._close()
        usage = usage_of_message(completion)
        yield self._event("message_delta", delta=self._stop(completion), usage=usage)
        yield self._event("message_stop")

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(self.error(error), "error")

    def _open(self, kind: str, block: Json) -> Iterator[bytes]:
        yield from self._close()
        self._index, self._kind = self._index + 1, kind
        yield self._event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._kind:
            yield self._event("content_block_stop", index=self._index)
        self._kind = ""

    def _head(self) -> Json:
        return {
            "id": f"msg_{self._id}", "type": "message", "role": "assistant", "model": self._model,
        }  # fmt: skip

    def _stop(self, completion: Completion) -> Json:
        """Return why the message ended, and the text at which it was stopped."""
        finished = completion.finished
        if finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT):
            return {"stop_reason": "max_tokens", "stop_sequence": None}
        if completion.calls:
            return {"stop_reason": "tool_use", "stop_sequence": None}
        if finished.stop in self._request.chat.stop:
            return {"stop_reason": "stop_sequence", "stop_sequence": finished.stop}
        return {"stop_reason": "end_turn", "stop_sequence": None}

    @staticmethod
    def _event(name: str, **members: object) -> bytes:
        return sse({"type": name} | members, name)


def _block(kind: str, text: str) -> Json:
    signature: Json = {"signature": ""} if kind == "thinking" else {}
    block: Json = {"type": kind, kind: text}
    return block | signature


def _call(call: ToolCall) -> Json:
    """Return a call whose input is to come."""
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}


def arguments_of(call: ToolCall) -> object:
    """Return the arguments of a call; what was cut short is none."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return {}
