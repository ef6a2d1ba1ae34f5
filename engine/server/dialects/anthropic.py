"""Anthropic's messages, in the part that chat clients use: text in, text and thinking out."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from engine.events import FinishReason
from engine.request import ChatRequest, Message, Role
from engine.server.asked import (
    Asked,
    ServedModel,
    check_model,
    length,
    new_id,
    sampling,
    stops,
)
from engine.server.conversation import content, messages
from engine.server.dialects.dialect import Json, sse
from engine.server.dialects.usage import usage_of_message
from engine.server.generation import Answered
from engine.server.members import Members
from engine.server.reasoning import AnswerPiece
from engine.server.refusal import HttpRefusal

_ROLES = ("user", "assistant")


class AnthropicMessages:
    """`/v1/messages`."""

    def read(self, body: Members, model: ServedModel) -> Asked:
        """Return what is asked."""
        check_model(body, model)
        body.only("tools", [])
        most = length(body, "max_tokens")
        if most is None:
            raise body.wrong("max_tokens", "a whole number of 1 or more")
        turns = list(body.list("messages"))
        for turn in turns:
            if turn.raw("role") not in _ROLES:
                raise turn.wrong("role", "user or assistant")
        system = content(body, "system", empty=True)
        before = (Message(Role.SYSTEM, system),) if system else ()
        asked = ChatRequest(
            new_id(),
            (*before, *messages(turns)),
            sampling(body, model),
            most,
            stops(body, "stop_sequences"),
            perf_counter(),
            _thinking(body),
        )
        return Asked(asked, model.name, stream=bool(body.flag("stream")))

    def whole(self, asked: Asked, answer: Answered) -> Json:
        """Return an answer as one object."""
        blocks: list[Json] = []
        if answer.thought:
            blocks.append(_block(answer.thought, thought=True))
        blocks.append(_block(answer.said, thought=False))
        reason, stop = _reason(asked, answer)
        return _head(asked) | {
            "content": blocks,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": usage_of_message(answer),
            "seed": answer.finished.seed,
        }

    def writer(self, asked: Asked) -> MessageWriter:
        """Return what streams an answer."""
        return MessageWriter(asked)

    def refusal(self, refusal: HttpRefusal) -> Json:
        """Return the body of a refusal."""
        return refusal.as_anthropic()


class MessageWriter:
    """Streams a message: blocks of content, one after the other."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._index = -1
        self._thought = False

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield a message without content."""
        usage = {"input_tokens": prompt_tokens, "output_tokens": 0}
        empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield self._event("message_start", message=_head(self._asked) | empty)

    def piece(self, piece: AnswerPiece) -> Iterator[bytes]:
        """Yield a piece of the answer, behind the beginning of a block where one begins."""
        if self._index < 0 or piece.thought is not self._thought:
            yield from self._close()
            yield from self._open(thought=piece.thought)
        kind = "thinking" if piece.thought else "text"
        delta = {"type": f"{kind}_delta", kind: piece.text}
        yield self._event("content_block_delta", index=self._index, delta=delta)

    def end(self, answer: Answered) -> Iterator[bytes]:
        """Yield how it ended."""
        if self._index < 0:
            yield from self._open(thought=False)
        yield from self._close()
        reason, stop = _reason(self._asked, answer)
        delta = {"stop_reason": reason, "stop_sequence": stop}
        yield self._event("message_delta", delta=delta, usage=usage_of_message(answer))
        yield self._event("message_stop")

    def fail(self, refusal: HttpRefusal) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        yield sse(refusal.as_anthropic(), "error")

    def _open(self, *, thought: bool) -> Iterator[bytes]:
        self._index, self._thought = self._index + 1, thought
        block = _block("", thought=thought)
        yield self._event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._index >= 0:
            yield self._event("content_block_stop", index=self._index)

    @staticmethod
    def _event(name: str, **members: object) -> bytes:
        return sse({"type": name} | members, name)


def _head(asked: Asked) -> Json:
    return {
        "id": f"msg_{asked.id}", "type": "message", "role": "assistant", "model": asked.model,
    }  # fmt: skip


def _block(text: str, *, thought: bool) -> Json:
    if thought:
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}


def _reason(asked: Asked, answer: Answered) -> tuple[str, str | None]:
    """Return why the message ended, and the text at which it was stopped."""
    finished = answer.finished
    if finished.reason in (FinishReason.LENGTH, FinishReason.CONTEXT):
        return "max_tokens", None
    if finished.stop in asked.request.stop:
        return "stop_sequence", finished.stop
    return "end_turn", None


def _thinking(body: Members) -> bool | None:
    thinking = body.inner("thinking")
    kind = None if thinking is None else thinking.text("type")
    return None if kind is None else kind != "disabled"
