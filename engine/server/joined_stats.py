"""Statistics of an answer that was written in several stretches."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from engine.events import AnswerStats


def joined_stats(first: AnswerStats, then: AnswerStats) -> AnswerStats:
    """Return the statistics of both stretches; the prompt is that of the first.

    What the second stretch read again counts as little as the time between them.
    """
    if not first.committed:
        return replace(then, prompt_tokens=first.prompt_tokens or then.prompt_tokens)
    committed = first.committed + then.committed
    decoding = first.decode_seconds + then.decode_seconds
    verified = _verified(first) + _verified(then)
    rounds = first.rounds + then.rounds
    plain = first.plain_rounds + then.plain_rounds
    return replace(
        then,
        prompt_tokens=first.prompt_tokens,
        reused_tokens=first.reused_tokens,
        committed=committed,
        rounds=rounds,
        plain_rounds=plain,
        drafted=first.drafted + then.drafted,
        accepted=first.accepted + then.accepted,
        drafted_by_depth=_sums(first.drafted_by_depth, then.drafted_by_depth),
        accepted_by_depth=_sums(first.accepted_by_depth, then.accepted_by_depth),
        acceptance_length=verified / (rounds - plain) if rounds > plain else None,
        ttft_s=first.ttft_s,
        tokens_per_s=(_timed(first) + _timed(then)) / decoding if decoding > 0 else None,
        seconds=first.seconds + then.seconds,
        draft_seconds=first.draft_seconds + then.draft_seconds,
        verify_seconds=first.verify_seconds + then.verify_seconds,
        decode_seconds=decoding,
        useful_seconds=first.useful_seconds + then.useful_seconds,
        wasted_seconds=first.wasted_seconds + then.wasted_seconds,
    )


def _verified(stats: AnswerStats) -> float:
    """Tokens of the rounds that verified a draft."""
    return (stats.acceptance_length or 0.0) * (stats.rounds - stats.plain_rounds)


def _timed(stats: AnswerStats) -> float:
    """Tokens behind the first one of a stretch."""
    return (stats.tokens_per_s or 0.0) * stats.decode_seconds


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
