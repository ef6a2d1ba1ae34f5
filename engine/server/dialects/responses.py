"""OpenAI's responses, in the part that chat clients use: text in, text out, nothing stored."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import FinishReason
from engine.request import ChatRequest, Message, Role, SamplingParams
from engine.server.api_error import ApiError, bad_request
from engine.server.completion_request import CompletionRequest, length, sampling, stops
from engine.server.conversation import check_tool_choice, messages
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.usage import usage_in_and_out
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.reasoning import CompletionDelta
from engine.server.thinking import thinking_wish

_SKIPPED = ("reasoning", "item_reference")
"""Types of items that say nothing here: thoughts of others, and what nobody stored."""


class Responses(Dialect):
    """`/v1/responses`; its streams are items of output, each with one part of content."""

    def __init__(self, request: CompletionRequest, model: str) -> None:
        super().__init__(request, model)
        self._number, self._index = 0, -1
        self._reasoning = False
        self._text: list[str] = []

    @staticmethod
    def parse(
        body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        check_tool_choice(body)
        body.only("background", False)
        for name in ("previous_response_id", "conversation", "prompt"):
            body.only(name)  # nothing is stored here that they could name
        if (form := body.inner("text")) is not None and (kind := form.inner("format")) is not None:
            kind.only("type", "text")
        wish = thinking_wish(body)
        chat = ChatRequest(
            request_id,
            _conversation(body),
            sampling(body, recommended),
            length(body, "max_output_tokens"),
            stops(body, "stop"),
            thinking=wish.on,
            effort=wish.effort,
            thought_tokens=wish.budget,
        )
        return CompletionRequest(chat, stream=bool(body.flag("stream")))

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
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": chat.sampling.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
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
        if self._index < 0 or delta.reasoning is not self._reasoning:
            yield from self._close()
            self._index, self._reasoning, self._text = self._index + 1, delta.reasoning, []
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
        if self._index < 0:
            return
        text, reasoning = "".join(self._text), self._reasoning
        name = "reasoning_text" if reasoning else "output_text"
        yield self._part_event(f"response.{name}.done", text=text, **self._extra())
        part = _part(text, reasoning=reasoning)
        yield self._part_event("response.content_part.done", part=part)
        item = self._item(self._index, text, reasoning=reasoning, done=True)
        yield self._event("response.output_item.done", output_index=self._index, item=item)

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

    def _event(self, name: str, **members: object) -> bytes:
        number, self._number = self._number, self._number + 1
        return sse({"type": name, "sequence_number": number} | members, name)

    def _output(self, completion: Completion) -> list[Json]:
        """Return the items of a completion, as they were streamed."""
        items: list[tuple[bool, list[str]]] = []
        for delta in completion.deltas:
            if not items or items[-1][0] is not delta.reasoning:
                items.append((delta.reasoning, []))
            items[-1][1].append(delta.text)
        return [
            self._item(index, "".join(texts), reasoning=reasoning, done=True)
            for index, (reasoning, texts) in enumerate(items)
        ]

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


def _part(text: str, *, reasoning: bool) -> Json:
    if reasoning:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
