"""Questions about tokens, which need no turn: how many, which they are, what they spell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.events import Counted
from engine.request import ChatRequest, RawPrompt, SamplingParams
from engine.server.conversation import messages
from engine.server.dialects.anthropic import AnthropicMessages
from engine.server.dialects.chat import ChatCompletions
from engine.server.dialects.dialect import Dialect, Json
from engine.server.dialects.responses import Responses
from engine.server.members import Members
from engine.server.prompts import prompts

_ID = "count"


@dataclass(frozen=True, slots=True)
class TokenQuestion:
    """A path that tells something of tokens.

    Attributes:
        read: returns what is to be counted, of a body.
        answer: returns the response.
        dialect: whose errors it has.
    """

    read: Callable[[Members], ChatRequest]
    answer: Callable[[Counted], Json]
    dialect: type[Dialect] = ChatCompletions


def _of_dialect(dialect: type[Dialect]) -> Callable[[Members], ChatRequest]:
    """Return what reads a whole request of a dialect; how long its answer may be is no matter."""

    def read(body: Members) -> ChatRequest:
        return dialect.parse(body.with_default("max_tokens", 1), _ID, SamplingParams()).chat

    return read


def _tokens(body: Members) -> ChatRequest:
    """Return what is to be cut into tokens: `content` (llama-server), `prompt` or `messages`."""
    if body.raw("messages") is not None:
        return ChatRequest(_ID, messages(list(body.list("messages"))))
    name = "prompt" if body.raw("prompt") is not None else "content"
    special = body.flag("parse_special") is not False
    begins = body.flag("add_special" if name == "content" else "add_special_tokens")
    begins = name == "prompt" if begins is None else begins
    text = RawPrompt(body.needed_text(name), control_tokens=special, begins=begins)
    return ChatRequest(_ID, (), raw=text)


def _spelled(body: Members) -> ChatRequest:
    """Return the ids that are to be spelled."""
    if not isinstance(body.raw("tokens"), list):
        raise body.wrong("tokens", "a list of token ids")
    (found,) = prompts(body, "tokens", most=1)
    return ChatRequest(_ID, (), raw=replace(found, begins=False))


def _told(counted: Counted) -> Json:
    return {
        "tokens": list(counted.ids), "count": len(counted.ids), "max_model_len": counted.context,
    }  # fmt: skip


QUESTIONS = {
    "/v1/messages/count_tokens": TokenQuestion(
        _of_dialect(AnthropicMessages),
        lambda counted: {"input_tokens": counted.prompt_tokens},
        AnthropicMessages,
    ),
    "/v1/responses/input_tokens": TokenQuestion(
        _of_dialect(Responses),
        lambda counted: {
            "object": "response.input_tokens", "input_tokens": counted.prompt_tokens,
        },
    ),
    "/tokenize": TokenQuestion(_tokens, _told),
    "/detokenize": TokenQuestion(
        _spelled, lambda counted: {"content": counted.text, "prompt": counted.text}
    ),
}  # fmt: skip
"""The questions, by path."""
