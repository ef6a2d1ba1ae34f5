"""A request for an answer, as a server's chat completions take it."""

from __future__ import annotations

import json
from collections.abc import Collection

from engine.commands import Connect, ServerKind
from engine.errors import NotPossible
from engine.language import tr
from engine.model.text.thinking import AnswerPart, pieces_of
from engine.remote.calls import Json, offered, turns
from engine.request import ChatRequest, Grammar, GrammarKind, Role, SamplingParams

_VLLM_LIKE = frozenset({ServerKind.VLLM, ServerKind.RAY, ServerKind.SGLANG})
_MORE_SAMPLING = _VLLM_LIKE | {ServerKind.DUOTAIL, ServerKind.LLAMA_SERVER, ServerKind.LM_STUDIO}
"""Servers that know top-k, min-p and a repetition penalty; others may refuse what is not OpenAI's.
"""
_SWITCH_THINKING = _VLLM_LIKE | {ServerKind.DUOTAIL, ServerKind.LLAMA_SERVER}
_COUNT_ALL_ALONG = _VLLM_LIKE | {ServerKind.DUOTAIL}
_CONTINUE = _VLLM_LIKE | {ServerKind.DUOTAIL, ServerKind.LLAMA_SERVER}
"""Servers that go on with an answer that ends the conversation."""
_OFF = SamplingParams()


def payload(request: ChatRequest, place: Connect, said: Collection[str] | None = None) -> Json:
    """Return the body of a request to `/chat/completions`, whose response is streamed.

    Args:
        request: what to answer.
        place: the model and its server.
        said: sampling parameters that somebody chose; the server has its own for all others.
            None: all of them.

    Raises:
        NotPossible: the server cannot go on with an answer that was begun, or takes no such
            grammar.
    """
    body: Json = {
        "model": place.model,
        "messages": list(turns(request.messages, request.tools.tools)),
        "stream": True,
        "stream_options": _stream_options(place.kind),
        **_sampling(request.sampling, place.kind, said),
    }
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if place.kind is ServerKind.LLAMA_SERVER:
        body["timings_per_token"] = True
    if request.grammar is not None:
        body |= _constraint(request.grammar, place.kind)
    if request.tools.tools:
        body["tools"] = offered(request.tools.tools)
        if not request.tools.parallel:
            body["parallel_tool_calls"] = False
    if request.thinking is not None:
        body |= _thinking(place.kind, think=request.thinking)
    if request.messages and request.messages[-1].role is Role.ASSISTANT:
        body |= _continuing(request, place)
    return body


def _stream_options(kind: ServerKind) -> Json:
    options: Json = {"include_usage": True}
    if kind in _COUNT_ALL_ALONG:
        options["continuous_usage_stats"] = True
    return options


def _sampling(sampling: SamplingParams, kind: ServerKind, said: Collection[str] | None) -> Json:
    """Return what is asked of the sampler: what was said, else all but what is off."""
    of_llama = kind in (ServerKind.LLAMA_SERVER, ServerKind.LM_STUDIO)
    names = dict.fromkeys(("temperature", "seed", "top_p", "presence_penalty", "frequency_penalty"))
    if kind in _MORE_SAMPLING:
        names |= dict.fromkeys(("top_k", "min_p", "repetition_penalty"))
    if said is None:
        said = {"temperature", "seed", *(name for name in names if _is_on(sampling, name))}
    written = {"repetition_penalty": "repeat_penalty"} if of_llama else {}
    return {written.get(name, name): getattr(sampling, name) for name in names if name in said}


def _is_on(sampling: SamplingParams, name: str) -> bool:
    return bool(getattr(sampling, name) != getattr(_OFF, name))


def _constraint(grammar: Grammar, kind: ServerKind) -> Json:
    """Return what has the answer follow a grammar."""
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        form = {"name": "answer", "strict": True, "schema": json.loads(grammar.text)}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if kind is ServerKind.DUOTAIL and grammar.kind is not GrammarKind.REGEX:
        return {"grammar": grammar.text}
    if kind is ServerKind.LLAMA_SERVER and grammar.kind is GrammarKind.GBNF:
        return {"grammar": grammar.text}
    if kind in _VLLM_LIKE and grammar.kind is not GrammarKind.REGEX:
        return {"structured_outputs": {"grammar": grammar.text}}
    raise NotPossible(
        tr("This server takes no grammar of this kind."),
        tr("Use a JSON schema, or a model on this computer."),
    )


def _thinking(kind: ServerKind, *, think: bool) -> Json:
    if kind in _SWITCH_THINKING:
        return {"chat_template_kwargs": {"enable_thinking": think}}
    if kind is ServerKind.OLLAMA and not think:
        return {"reasoning_effort": "none"}
    return {}


def _continuing(request: ChatRequest, place: Connect) -> Json:
    """Return what makes the server go on with the answer that ends the conversation."""
    *earlier, begun = request.messages
    pieces = pieces_of(begun.text)
    thinks = any(piece.part is not AnswerPart.SAID for piece in pieces)
    said = "".join(piece.text for piece in pieces if piece.part is AnswerPart.SAID)
    said = said.lstrip() if thinks else said
    if not said:
        raise NotPossible(
            tr("The answer was interrupted while the model was still thinking."),
            tr("Regenerate it: a server goes on with an answer, not with thoughts."),
        )
    if place.kind not in _CONTINUE:
        raise NotPossible(
            tr("This server cannot go on with an answer that was begun."),
            tr("Regenerate it, or send “Please go on” as a message."),
        )
    told: Json = {
        "messages": [
            *turns(earlier, request.tools.tools),
            {"role": str(Role.ASSISTANT), "content": said},
        ]
    }
    if place.kind is not ServerKind.DUOTAIL:  # it needs no word; llama-server else sends all anew
        told |= {"add_generation_prompt": False, "continue_final_message": True}
    return told
