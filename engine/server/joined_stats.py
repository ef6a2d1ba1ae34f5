"""Statistics of an answer that was written in several stretches."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from engine.events import AnswerStats

_SUMS = (
    "committed", "rounds", "plain_rounds", "drafted", "accepted", "seconds", "decode_seconds",
    "draft_seconds", "verify_seconds", "useful_seconds", "wasted_seconds",
)  # fmt: skip


def joined_stats(first: AnswerStats, then: AnswerStats) -> AnswerStats:
    """Return the statistics of both stretches; the prompt is that of the first.

    What the second stretch read again counts as little as the time between them.
    """
    if not first.committed:
        return replace(then, prompt_tokens=first.prompt_tokens or then.prompt_tokens)
    sums = {name: getattr(first, name) + getattr(then, name) for name in _SUMS}
    drafting, decoding = sums["rounds"] - sums["plain_rounds"], sums["decode_seconds"]
    return replace(
        then,
        **sums,
        prompt_tokens=first.prompt_tokens,
        reused_tokens=first.reused_tokens,
        drafted_by_depth=_sums(first.drafted_by_depth, then.drafted_by_depth),
        accepted_by_depth=_sums(first.accepted_by_depth, then.accepted_by_depth),
        acceptance_length=(_verified(first) + _verified(then)) / drafting if drafting else None,
        ttft_s=first.ttft_s,
        tokens_per_s=(_timed(first) + _timed(then)) / decoding if decoding else None,
    )


def _verified(stats: AnswerStats) -> float:
    """Tokens of the rounds that verified a draft."""
    return (stats.acceptance_length or 0.0) * (stats.rounds - stats.plain_rounds)


def _timed(stats: AnswerStats) -> float:
    """Tokens behind the first one of a stretch."""
    return (stats.tokens_per_s or 0.0) * stats.decode_seconds


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
