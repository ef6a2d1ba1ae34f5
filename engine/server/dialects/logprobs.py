"""Probabilities of tokens, in both shapes that OpenAI's clients know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from engine.events import Origin, PromptRead, TokenSpan
from engine.server.dialects.dialect import Json
from engine.server.reasoning import CompletionDelta, Token

_LEAST = -9999.0
"""Logprob of tokens without a chance, as OpenAI writes it."""


def chat_logprobs(tokens: Iterable[Token]) -> Json:
    """Return the shape of chat completions."""
    content = [
        _entry(text, _logprob(span))
        | {"top_logprobs": [_entry(other.text, _log(other.probability)) for other in span.others]}
        for text, span in tokens
        if span.probability is not None
    ]
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[Token], offset: int) -> Json:
    """Return the shape of text completions; `offset`: characters of the completion before them.

    What nobody could predict, as the first token of a prompt, has no probability.
    """
    offsets = []
    for text, _ in tokens:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": [text for text, _ in tokens],
        "token_logprobs": [
            None if span.probability is None else _logprob(span) for _, span in tokens
        ],
        "top_logprobs": [
            None
            if span.probability is None
            else {other.text: _log(other.probability) for other in span.others}
            for _, span in tokens
        ],
        "text_offset": offsets,
    }


def content_tokens(deltas: Iterable[CompletionDelta]) -> list[Token]:
    """Return the tokens that wrote the content."""
    return [token for delta in deltas if not delta.reasoning for token in delta.tokens]


def prompt_tokens(read: PromptRead, count: int | None) -> list[Token]:
    """Return the tokens of a prompt, the last `count` where that is given."""
    told = read.tokens if count is None else read.tokens[-count:]
    return [
        (each.text, TokenSpan(each.token_id, 0, 0, Origin.TARGET, each.probability, each.others))
        for each in told
    ]


def _entry(text: str, value: float) -> Json:
    return {"token": text, "logprob": value, "bytes": list(text.encode())}


def _logprob(span: TokenSpan) -> float:
    """Return a token's own logprob: the one among its alternatives, where it is there."""
    own = (each.probability for each in span.others if each.token_id == span.token_id)
    return _log(next(own, span.probability))


def _log(probability: float | None) -> float:
    return max(log(probability), _LEAST) if probability else _LEAST
