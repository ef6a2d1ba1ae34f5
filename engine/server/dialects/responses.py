"""OpenAI's responses, in the part that chat clients use: text in, text out, nothing stored."""

from __future__ import annotations

import time
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
from engine.server.conversation import messages
from engine.server.dialects.dialect import Json, sse
from engine.server.dialects.usage import usage_in_and_out
from engine.server.generation import Answered
from engine.server.members import Members
from engine.server.reasoning import AnswerPiece
from engine.server.refusal import HttpRefusal, bad


class Responses:
    """`/v1/responses`."""

    def read(self, body: Members, model: ServedModel) -> Asked:
        """Return what is asked."""
        check_model(body, model)
        body.only("tools", [])
        body.only("background", False)
        for name in ("previous_response_id", "conversation", "prompt"):
            body.only(name)  # nothing is stored here that they could name
        if (form := body.inner("text")) is not None and (kind := form.inner("format")) is not None:
            kind.only("type", "text")
        asked = ChatRequest(
            new_id(),
            _conversation(body),
            sampling(body, model),
            length(body, "max_output_tokens"),
            stops(body, "stop"),
            perf_counter(),
            _thinking(body),
        )
        return Asked(asked, model.name, stream=bool(body.flag("stream")))

    def whole(self, asked: Asked, answer: Answered) -> Json:
        """Return an answer as one object."""
        return _response(asked, int(time.time()), answer)

    def writer(self, asked: Asked) -> ResponseWriter:
        """Return what streams an answer."""
        return ResponseWriter(asked)

    def refusal(self, refusal: HttpRefusal) -> Json:
        """Return the body of a refusal."""
        return refusal.as_openai()


class ResponseWriter:
    """Streams a response: items of output, one after the other, each with its part of content."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._created = asked, int(time.time())
        self._number, self._index = 0, -1
        self._thought = False
        self._text: list[str] = []

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield a response that is being written."""
        del prompt_tokens
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=_response(self._asked, self._created, None))

    def piece(self, piece: AnswerPiece) -> Iterator[bytes]:
        """Yield a piece of the answer, behind the beginning of an item where one begins."""
        if self._index < 0 or piece.thought is not self._thought:
            yield from self._close()
            self._index, self._thought, self._text = self._index + 1, piece.thought, []
            item = _item(self._asked, self._index, "", thought=piece.thought, done=False)
            yield self._event("response.output_item.added", output_index=self._index, item=item)
            yield self._part("response.content_part.added", part=_part("", thought=piece.thought))
        self._text.append(piece.text)
        name = "reasoning_text" if piece.thought else "output_text"
        yield self._part(f"response.{name}.delta", delta=piece.text, **self._extra())

    def end(self, answer: Answered) -> Iterator[bytes]:
        """Yield how it ended."""
        yield from self._close()
        response = _response(self._asked, self._created, answer)
        yield self._event(f"response.{response['status']}", response=response)

    def fail(self, refusal: HttpRefusal) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        error = {"code": refusal.code or refusal.kind, "message": refusal.message}
        response = _response(self._asked, self._created, None)
        response |= {"status": "failed", "error": error}
        yield self._event("response.failed", response=response)

    def _close(self) -> Iterator[bytes]:
        """End the item that is being written."""
        if self._index < 0:
            return
        text, thought = "".join(self._text), self._thought
        name = "reasoning_text" if thought else "output_text"
        yield self._part(f"response.{name}.done", text=text, **self._extra())
        yield self._part("response.content_part.done", part=_part(text, thought=thought))
        item = _item(self._asked, self._index, text, thought=thought, done=True)
        yield self._event("response.output_item.done", output_index=self._index, item=item)

    def _extra(self) -> Json:
        return {} if self._thought else {"logprobs": []}

    def _part(self, name: str, **members: object) -> bytes:
        """Return an event of the item's only part."""
        return self._event(
            name,
            item_id=_item_id(self._asked, self._index, thought=self._thought),
            output_index=self._index,
            content_index=0,
            **members,
        )

    def _event(self, name: str, **members: object) -> bytes:
        number, self._number = self._number, self._number + 1
        return sse({"type": name, "sequence_number": number} | members, name)


def _conversation(body: Members) -> tuple[Message, ...]:
    """Return the messages of the input, the instructions first."""
    instructions = body.text("instructions")
    before = (Message(Role.SYSTEM, instructions),) if instructions else ()
    if isinstance(body.raw("input"), str):
        return (*before, Message(Role.USER, body.needed_text("input")))
    turns = [turn for turn in body.list("input") if turn.raw("type") != "reasoning"]
    for turn in turns:
        turn.only("type", "message")
    if not turns:
        raise bad("input should be a text or a list of messages.", "input")
    return (*before, *messages(turns))


def _thinking(body: Members) -> bool | None:
    reasoning = body.inner("reasoning")
    return False if reasoning is not None and reasoning.text("effort") == "none" else None


def _response(asked: Asked, created: int, answer: Answered | None) -> Json:
    """Return the response; `answer`: None while it is being written."""
    cut = answer is not None and answer.finished.reason in (
        FinishReason.LENGTH,
        FinishReason.CONTEXT,
    )
    status = "in_progress" if answer is None else "incomplete" if cut else "completed"
    sampled = asked.request.sampling
    return {
        "id": f"resp_{asked.id}",
        "object": "response",
        "created_at": created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "max_output_tokens": asked.request.max_tokens,
        "metadata": {},
        "model": asked.model,
        "output": [] if answer is None else _output(asked, answer),
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": False,
        "temperature": sampled.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": sampled.top_p,
        "truncation": "disabled",
        "usage": None if answer is None else usage_in_and_out(answer),
        "seed": sampled.seed,
    }


def _output(asked: Asked, answer: Answered) -> list[Json]:
    """Return the items of an answer, as they were streamed."""
    items: list[tuple[bool, list[str]]] = []
    for piece in answer.pieces:
        if not items or items[-1][0] is not piece.thought:
            items.append((piece.thought, []))
        items[-1][1].append(piece.text)
    return [
        _item(asked, index, "".join(texts), thought=thought, done=True)
        for index, (thought, texts) in enumerate(items)
    ]


def _item(asked: Asked, index: int, text: str, *, thought: bool, done: bool) -> Json:
    item: Json = {
        "id": _item_id(asked, index, thought=thought),
        "status": "completed" if done else "in_progress",
        "content": [_part(text, thought=thought)] if done else [],
    }
    if thought:
        return item | {"type": "reasoning", "summary": []}
    return item | {"type": "message", "role": "assistant"}


def _item_id(asked: Asked, index: int, *, thought: bool) -> str:
    return f"{'rs' if thought else 'msg'}_{asked.id}_{index}"


def _part(text: str, *, thought: bool) -> Json:
    if thought:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
