"""Counts of a completion, as clients read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from engine.events import Finished, FinishReason
from engine.server.dialects.dialect import Dialect, Json
from engine.server.generation import Completion
from engine.server.members import Members
from engine.server.progress import CompletionProgress

FINISH_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.REPETITION: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT: "length",
}


def finish_reason(completion: Completion) -> str:
    """Return why a completion ended, in OpenAI's words."""
    reason = FINISH_REASONS[completion.finished.reason]
    return "tool_calls" if completion.calls and reason == "stop" else reason


def asks_for_usage(body: Members) -> bool:
    """Return whether a stream of one of OpenAI's completions is to end with its counts."""
    options = body.inner("stream_options")
    return options is not None and bool(options.flag("include_usage"))


def asks_for_progress(body: Members) -> bool:
    """Return whether a stream is to tell its counts all along, by vLLM's name for it."""
    options = body.inner("stream_options")
    wished = options is not None and bool(options.flag("continuous_usage_stats"))
    return wished and asks_for_usage(body) and bool(body.flag("stream"))


def usage_so_far(progress: CompletionProgress) -> Json:
    """Return the counts of a completion that is being written."""
    return {
        "prompt_tokens": progress.prompt_tokens,
        "completion_tokens": progress.committed,
        "total_tokens": progress.prompt_tokens + progress.committed,
        "speculation": {
            "drafted": progress.drafted,
            "accepted": progress.accepted,
            "rounds": progress.rounds,
            "plain_rounds": progress.plain_rounds,
            "acceptance_length": progress.acceptance_length,
        },
    }


def usage(completion: Completion) -> Json:
    """Return the counts in the shape of OpenAI's completions."""
    stats = completion.finished.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.committed,
        "total_tokens": stats.prompt_tokens + stats.committed,
        "prompt_tokens_details": {"cached_tokens": stats.reused_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens(completion)},
        "speculation": speculation(completion.finished),
    }


def usage_of_all(completions: Sequence[Completion], n: int) -> Json:
    """Return the counts of all completions of a request; each prompt counts once.

    Args:
        completions: one after the other.
        n: so many of them in a row have the same prompt.
    """
    if len(completions) == 1:
        return usage(completions[0])
    stats = [each.finished.stats for each in completions]
    read, written = sum(each.prompt_tokens for each in stats[::n]), sum(s.committed for s in stats)
    cached = sum(each.reused_tokens for each in stats[::n])
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": sum(map(reasoning_tokens, completions))},
    }


def joined(dialect: Dialect, completions: Sequence[Completion], n: int) -> Json:
    """Return completions as one object with a choice for each; `n` as in `usage_of_all`."""
    responses = []
    for place, completion in enumerate(completions):
        dialect.turn_to(place)
        responses.append(dialect.response(completion))
    choices = [choice for each in responses for choice in cast("list[Json]", each["choices"])]
    return responses[0] | {"choices": choices, "usage": usage_of_all(completions, n)}


def provenance(completion: Completion) -> Json:
    """Return what it takes to have the same text again: numeric signature and seed."""
    finished = completion.finished
    return {"system_fingerprint": finished.signature, "seed": finished.seed}


def usage_in_and_out(completion: Completion) -> Json:
    """Return the counts in the shape of OpenAI's responses."""
    stats = completion.finished.stats
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens},
        "output_tokens": stats.committed,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens(completion)},
        "total_tokens": stats.prompt_tokens + stats.committed,
        "speculation": speculation(completion.finished),
    }


def usage_of_message(completion: Completion) -> Json:
    """Return the counts in the shape of Anthropic's messages."""
    stats = completion.finished.stats
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_read_input_tokens": stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": stats.committed,
        "speculation": speculation(completion.finished),
    }


def reasoning_tokens(completion: Completion) -> int:
    """Return how many tokens wrote its reasoning."""
    return sum(len(delta.tokens) for delta in completion.deltas if delta.reasoning)


def speculation(finished: Finished) -> Json:
    """Return what was drafted and accepted, and how fast it was; as in `AnswerStats`."""
    stats = finished.stats
    return {
        "mode": stats.mode,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "rounds": stats.rounds,
        "plain_rounds": stats.plain_rounds,
        "acceptance_length": stats.acceptance_length,
        "tokens_per_s": stats.tokens_per_s,
        "ttft_s": stats.ttft_s,
        "draft_s": stats.draft_seconds,
        "verify_s": stats.verify_seconds,
    }
