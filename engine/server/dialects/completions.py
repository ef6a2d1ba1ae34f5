"""OpenAI's older text completions: a prompt without a chat template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.events import PromptRead
from engine.request import ChatRequest, PromptDetail, SamplingParams
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
from engine.server.dialects.dialect import Dialect, Json, sse
from engine.server.dialects.logprobs import content_tokens, prompt_tokens, text_logprobs
from engine.server.dialects.usage import (
    FINISH_REASONS,
    asks_for_usage,
    joined,
    provenance,
    usage,
    usage_of_all,
)
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.prompts import prompts
from engine.server.reasoning import CompletionDelta, Token
from engine.server.structured import wanted_grammar

_LENGTH = 16
"""Most tokens of a completion whose request says nothing, as OpenAI has it."""


class TextCompletions(Dialect):
    """`/v1/completions`."""

    _offset = 0
    """Characters of the completion that were streamed."""

    def turn_to(self, choice: int) -> None:
        """Go on to another completion of the request."""
        super().turn_to(choice)
        self._offset = 0

    @classmethod
    def parse(
        cls, body: Members, request_id: str, recommended: SamplingParams | None
    ) -> CompletionRequest:
        """Return what a body asks for."""
        n = body.whole("n", 1, MOST_COMPLETIONS) or 1
        body.only("best_of", 1, n)
        alternatives = body.whole("logprobs", 0, MOST_ALTERNATIVES)
        echo = bool(body.flag("echo"))
        found = prompts(
            body,
            "prompt",
            most=MOST_COMPLETIONS // n,
            special=body.flag("parse_special") is not False,
            suffix=body.text("suffix") or None,
        )
        spelled = alternatives is not None or any(each.ids is not None for each in found)
        chat = ChatRequest(
            request_id,
            (),
            sampling(body, recommended),
            length(body, "max_tokens", default=_LENGTH, least=0 if echo else 1),
            stops(body, "stop"),
            grammar=wanted_grammar(body, body.inner("response_format")),
            bias=bias(body),
            detail=PromptDetail.LOGPROBS if echo and spelled else PromptDetail.NONE,
            alternatives=alternatives or 0,
        )
        return CompletionRequest(
            several((replace(chat, raw=each) for each in found), n),
            stream=bool(body.flag("stream")),
            usage=asks_for_usage(body),
            logprobs=alternatives is not None,
            echo=echo,
            n=n,
        )

    def response(self, completion: Completion) -> Json:
        """Return a completion as one object."""
        text, before = self._echo(completion.prompt)
        tokens = [*before, *content_tokens(completion.deltas)]
        logprobs = text_logprobs(tokens, 0) if self._request.logprobs else None
        reason = FINISH_REASONS[completion.finished.reason]
        choice = self._piece(text + completion.content, logprobs, reason)
        counts: Json = {"choices": [choice], "usage": usage(completion)}
        return self._head() | counts | provenance(completion)

    def joined(self, completions: Sequence[Completion]) -> Json:
        """Return all completions of the request as one object."""
        return joined(self, completions, self._request.n)

    def begin(self, prompt_tokens: int) -> Iterator[bytes]:
        """Yield the prompt, where its text is wanted alone."""
        del prompt_tokens
        if self._request.echo and self._chat.detail is PromptDetail.NONE:
            yield from self._told(self._echo(None)[0], ())

    def prompt(self, read: PromptRead) -> Iterator[bytes]:
        """Yield the prompt with its probabilities."""
        yield from self._told(*self._echo(read))

    def delta(self, delta: CompletionDelta) -> Iterator[bytes]:
        """Yield the next stretch of the completion."""
        yield from self._told(delta.text, delta.tokens)

    def end(self, completion: Completion) -> Iterator[bytes]:
        """Yield how it ended."""
        last = self._piece("", None, FINISH_REASONS[completion.finished.reason])
        yield sse(self._head() | provenance(completion) | {"choices": [last]})

    def close(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """Yield the counts, where they are wanted."""
        if self._request.usage:
            counts = usage_of_all(completions, self._request.n)
            head = self._head() | provenance(completions[0])
            yield sse(head | {"choices": [], "usage": counts})
        yield sse("[DONE]")

    def _echo(self, read: PromptRead | None) -> tuple[str, list[Token]]:
        """Return the prompt's text and tokens, where a completion begins with them."""
        raw = self._chat.raw
        if not self._request.echo or raw is None:
            return "", []
        ids = None if raw.ids is None else len(raw.ids)
        tokens = [] if read is None else prompt_tokens(read, ids)
        return "".join(text for text, _ in tokens) if tokens else raw.text, tokens

    def _told(self, text: str, tokens: Sequence[Token]) -> Iterator[bytes]:
        logprobs = text_logprobs(tokens, self._offset) if self._request.logprobs else None
        self._offset += len(text)
        yield sse(self._head() | {"choices": [self._piece(text, logprobs, None)]})

    def _piece(self, text: str, logprobs: Json | None, reason: str | None) -> Json:
        return {
            "index": self._choice, "text": text, "logprobs": logprobs, "finish_reason": reason,
        }  # fmt: skip

    def _head(self) -> Json:
        return {
            "id": f"cmpl-{self._id}",
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
        }
