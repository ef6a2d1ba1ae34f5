"""Anthropic's messages, in the part that chat clients use: text in, text and thinking out."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import FinishReason
from engine.request import ChatRequest, Message, Role, SamplingParams
from engine.server.api_error import ApiError
from engine.server.completion_request import CompletionRequest, length, sampling, stops
from engine.server.conversation import check_tool_choice, content, messages
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.usage import usage_of_message
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CompletionDelta
from engine.server.thinking import thinking_wish

_ROLES = ("user", "assistant")


class AnthropicMessages(Dialect):
    """`/v1/messages`; its streams are blocks of content, one after the other."""

    _index = -1
    _reasoning = False
    """Number and kind of the block that is being streamed."""

    @staticmethod
    def parse(
        body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        check_tool_choice(body)
        body.only("mcp_servers", [])
        if (wanted := body.inner("output_config")) is not None:
            wanted.only("format")
        most = length(body, "max_tokens")
        if most is None:
            raise body.wrong("max_tokens", "a whole number of 1 or more")
        turns = list(body.list("messages"))
        for turn in turns:
            if turn.raw("role") not in _ROLES:
                raise turn.wrong("role", "user or assistant")
        system = content(body, "system", empty=True)
        before = (Message(Role.SYSTEM, system),) if system else ()
        wish = thinking_wish(body)
        chat = ChatRequest(
            request_id,
            (*before, *messages(turns)),
            sampling(body, recommended),
            most,
            stops(body, "stop_sequences"),
            thinking=wish.on,
            effort=wish.effort,
            thought_tokens=wish.budget,
        )
        return CompletionRequest(chat, stream=bool(body.flag("stream")))

    @staticmethod
    def error(error: ApiError) -> Json:
        """Return the body of an error."""
        return error.to_anthropic()

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        blocks = [_block(completion.reasoning, reasoning=True)] if completion.reasoning else []
        blocks.append(_block(completion.content, reasoning=False))
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
        if self._index < 0 or delta.reasoning is not self._reasoning:
            yield from self._close()
            yield from self._open(reasoning=delta.reasoning)
        kind = "thinking" if delta.reasoning else "text"
        told = {"type": f"{kind}_delta", kind: delta.text}
        yield self._event("content_block_delta", index=self._index, delta=told)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        if self._index < 0:
            yield from self._open(reasoning=False)
        yield from self._close()
        usage = usage_of_message(completion)
        yield self._event("message_delta", delta=self._stop(completion), usage=usage)
        yield self._event("message_stop")

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(self.error(error), "error")

    def _open(self, *, reasoning: bool) -> Iterator[bytes]:
        self._index, self._reasoning = self._index + 1, reasoning
        block = _block("", reasoning=reasoning)
        yield self._event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._index >= 0:
            yield self._event("content_block_stop", index=self._index)

    def _head(self) -> Json:
        return {
            "id": f"msg_{self._id}", "type": "message", "role": "assistant", "model": self._model,
        }  # fmt: skip

    def _stop(self, completion: Completion) -> Json:
        """Return why the message ended, and the text at which it was stopped."""
        finished = completion.finished
        if finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT):
            return {"stop_reason": "max_tokens", "stop_sequence": None}
        if finished.stop in self._request.chat.stop:
            return {"stop_reason": "stop_sequence", "stop_sequence": finished.stop}
        return {"stop_reason": "end_turn", "stop_sequence": None}

    @staticmethod
    def _event(name: str, **members: object) -> bytes:
        return sse({"type": name} | members, name)


def _block(text: str, *, reasoning: bool) -> Json:
    if reasoning:
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}
