"""OpenAI's responses: text, tool calls and their results; nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from engine.events import FinishReason
from engine.request import ChatRequest, Message, Role, SamplingParams, Tool, ToolCall
from engine.server.api_error import ApiError, bad_request
from engine.server.completion_request import CompletionRequest, bias, length, sampling, stops
from engine.server.conversation import messages
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.usage import usage_in_and_out
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CallPart, CompletionDelta
from engine.server.structured import wanted_grammar
from engine.server.thinking import thinking_wish
from engine.server.tools import offered

_SKIPPED = ("reasoning", "item_reference")
"""Types of items that say nothing here: thoughts of others, and what nobody stored."""


class Responses(Dialect):
    """`/v1/responses`; its streams are items of output, each with one part of content."""

    def __init__(self, request: CompletionRequest, model: str, request_id: str) -> None:
        super().__init__(request, model, request_id)
        self._number, self._index = 0, -1
        self._open = self._reasoning = False
        self._text: list[str] = []

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        body.only("background", False)
        for name in ("previous_response_id", "conversation", "prompt"):
            body.only(name)  # nothing is stored here that they could name
        form = body.inner("text")
        wish = thinking_wish(body)
        chat = ChatRequest(
            request_id,
            _conversation(body),
            sampling(body, recommended),
            length(body, "max_output_tokens"),
            stops(body, "stop"),
            thinking=wish.on,
            effort=wish.effort,
            grammar=wanted_grammar(body, None if form is None else form.inner("format")),
            tools=offered(body),
            thought_tokens=wish.budget,
            bias=bias(body),
        )
        return CompletionRequest((chat,), stream=bool(body.flag("stream")))

    def response(self, completion: Completion | None) -> Json:
        """Return the response; `completion`: None while it is being written."""
        cut = completion is not None and completion.finished.reason in (
            FinishReason.LENGTH,
            FinishReason.CONTEXT,
        )
        status = "in_progress" if completion is None else "incomplete" if cut else "completed"
        chat = self._request.chat
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": None,
            "max_output_tokens": chat.max_tokens,
            "metadata": {},
            "model": self._model,
            "output": [] if completion is None else self._output(completion),
            "parallel_tool_calls": chat.tools.parallel,
            "previous_response_id": None,
            "store": False,
            "temperature": chat.sampling.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "required" if chat.tools.required else "auto",
            "tools": [_tool(tool) for tool in chat.tools.tools],
            "top_p": chat.sampling.top_p,
            "truncation": "disabled",
            "usage": None if completion is None else usage_in_and_out(completion),
            "seed": chat.sampling.seed,
        }

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield a response that is being written."""
        del prompt_tokens
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=self.response(None))

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield a stretch of the completion, behind the beginning of an item where one begins."""
        if delta.call is not None:
            yield from self._called(delta.call, delta)
            return
        if not self._open or delta.reasoning is not self._reasoning:
            yield from self._close()
            self._index, self._reasoning, self._text = self._index + 1, delta.reasoning, []
            self._open = True
            item = self._item(self._index, "", reasoning=delta.reasoning, done=False)
            yield self._event("response.output_item.added", output_index=self._index, item=item)
            part = _part("", reasoning=delta.reasoning)
            yield self._part_event("response.content_part.added", part=part)
        self._text.append(delta.text)
        name = "reasoning_text" if delta.reasoning else "output_text"
        yield self._part_event(f"response.{name}.delta", delta=delta.text, **self._extra())

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        yield from self._close()
        response = self.response(completion)
        yield self._event(f"response.{response['status']}", response=response)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Yield why it ended before its time."""
        told = {"code": error.code or error.kind, "message": error.message}
        response = self.response(None) | {"status": "failed", "error": told}
        yield self._event("response.failed", response=response)

    def _close(self) -> Iterator[bytes]:
        """End the item that is being written."""
        if not self._open:
            return
        self._open = False
        text, reasoning = "".join(self._text), self._reasoning
        name = "reasoning_text" if reasoning else "output_text"
        yield self._part_event(f"response.{name}.done", text=text, **self._extra())
        part = _part(text, reasoning=reasoning)
        yield self._part_event("response.content_part.done", part=part)
        item = self._item(self._index, text, reasoning=reasoning, done=True)
        yield self._event("response.output_item.done", output_index=self._index, item=item)

    def _called(self, call: ToolCall, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield a part of an item that is a call."""
        if delta.part is CallPart.BEGIN:
            yield from self._close()
            self._index += 1
            begun = self._call(self._index, call) | {"arguments": "", "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=self._index, item=begun)
            return
        item = self._call(self._index, call)
        place: Json = {"output_index": self._index, "item_id": item["id"]}
        name = "response.function_call_arguments"
        if delta.part is CallPart.ARGUMENTS:
            yield self._event(f"{name}.delta", **place, delta=delta.text)
            return
        yield self._event(f"{name}.done", **place, name=call.name, arguments=call.arguments)
        yield self._event("response.output_item.done", output_index=self._index, item=item)

    def _call(self, index: int, call: ToolCall) -> Json:
        return {
            "id": f"fc_{self._id}_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }

    def _extra(self) -> Json:
        return {} if self._reasoning else {"logprobs": []}

    def _part_event(self, name: str, **members: object) -> bytes:
        """Return an event of the item's only part."""
        return self._event(
            name,
            item_id=self._item_id(self._index, reasoning=self._reasoning),
            output_index=self._index,
            content_index=0,
            **members,
        )

    def _event(self, kind: str, /, **members: object) -> bytes:
        number, self._number = self._number, self._number + 1
        return sse({"type": kind, "sequence_number": number} | members, kind)

    def _output(self, completion: Completion) -> list[Json]:
        """Return the items of a completion, as they were streamed."""
        items: list[Json] = []
        told = [each for each in completion.deltas if each.part is CallPart.WHOLE]
        kinds = groupby(told, lambda delta: (delta.reasoning, delta.call))
        for index, ((reasoning, call), deltas) in enumerate(kinds):
            text = "".join(delta.text for delta in deltas)
            if call is None:
                items.append(self._item(index, text, reasoning=reasoning, done=True))
            else:
                items.append(self._call(index, call))
        return items

    def _item(self, index: int, text: str, *, reasoning: bool, done: bool) -> Json:
        item: Json = {
            "id": self._item_id(index, reasoning=reasoning),
            "status": "completed" if done else "in_progress",
            "content": [_part(text, reasoning=reasoning)] if done else [],
        }
        if reasoning:
            return item | {"type": "reasoning", "summary": []}
        return item | {"type": "message", "role": "assistant"}

    def _item_id(self, index: int, *, reasoning: bool) -> str:
        return f"{'rs' if reasoning else 'msg'}_{self._id}_{index}"


def _conversation(body: Members) -> tuple[Message, ...]:
    """Return the messages of the input, the instructions first."""
    instructions = body.text("instructions")
    before = (Message(Role.SYSTEM, instructions),) if instructions else ()
    if isinstance(body.raw("input"), str):
        return (*before, Message(Role.USER, body.needed_text("input")))
    turns = [turn for turn in body.list("input") if turn.raw("type") not in _SKIPPED]
    for turn in turns:
        turn.only("type", "message", "function_call", "function_call_output")
    if not turns:
        raise bad_request("input should be a text or a list of messages.", "input")
    return (*before, *messages(turns))


def _tool(tool: Tool) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": json.loads(tool.parameters),
        "strict": tool.strict,
    }


def _part(text: str, *, reasoning: bool) -> Json:
    if reasoning:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
