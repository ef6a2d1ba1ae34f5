"""Numbers and findings in words: the same texts for the eye and for screen readers. No Qt."""

from __future__ import annotations

from app.performance.tally import AnswerTally
from app.performance.timeline import Shares, Timeline
from engine.events import RoundFinished

ABSENT = "–"
NBSP = "\N{NO-BREAK SPACE}"
GIB = 2**30
_NOTEWORTHY = 0.05
"""Smaller shares of the time are not worth a sentence."""


def rate(value: float | None) -> str:
    """Tokens per second, or a length: one decimal below 100."""
    if value is None:
        return ABSENT
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def percent(share: float | None) -> str:
    """A share from 0 to 1 as a whole percentage."""
    return ABSENT if share is None else f"{100 * share:.0f}{NBSP}%"


def duration(seconds: float | None) -> str:
    """A time with the unit that suits it."""
    if seconds is None:
        return ABSENT
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f}{NBSP}ms"
    return f"{seconds:.1f}{NBSP}s" if seconds < 99.95 else f"{seconds:.0f}{NBSP}s"


def span(seconds: float) -> str:
    """A stretch of time on an axis, without needless decimals."""
    if seconds < 1:
        return f"{1000 * seconds:g}{NBSP}ms"
    return f"{seconds:g}{NBSP}s"


def gib(count: int | None) -> str:
    """Bytes in GiB."""
    if count is None:
        return ABSENT
    value = count / GIB
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def memory(used: int | None, total: int | None) -> str:
    """Memory used, of how much."""
    if used is None:
        return ABSENT
    of = "" if total is None else f" of {gib(total)}"
    return f"{gib(used)}{of}{NBSP}GiB"


def where_time_goes(timeline: Timeline, tally: AnswerTally | None) -> str:
    """The sentence under the timeline."""
    shares = timeline.shares
    if shares is None or tally is None or not tally.rounds:
        return "Each round of drafting and verifying shows here while an answer is written."
    if not shares.draft:
        sentence = f"No drafting: the target works {percent(shares.verify)} of the time"
        return sentence + _rest(shares).replace("the two", "rounds")
    sentence = _overlapping(shares) if shares.both >= _NOTEWORTHY else _taking_turns(shares)
    if tally.plain_rounds:
        sentence += f" {tally.plain_rounds} of {tally.rounds} rounds without a draft (outlined)."
    return sentence


def _taking_turns(shares: Shares) -> str:
    sentence = (
        f"Drafting takes {percent(shares.draft)} of the time, verifying {percent(shares.verify)}"
    )
    return sentence + _rest(shares)


def _rest(shares: Shares) -> str:
    if shares.neither < _NOTEWORTHY:
        return "."
    return f"; {percent(shares.neither)} passes between the two."


def _overlapping(shares: Shares) -> str:
    return (
        f"Both work {percent(shares.both)} of the time;"
        f" the draft is idle {percent(1 - shares.draft)}, the target {percent(1 - shares.verify)}."
    )


def one_round(done: RoundFinished) -> str:
    """One round, for a tooltip."""
    verifying = f"verifying {duration(done.verify.seconds)}"
    if not done.drafted:
        return f"Round {done.index}: no draft, {verifying}"
    drafting = f"drafting {duration(done.draft.seconds)}, " if done.draft else ""
    accepted = f"{done.accepted} of {done.drafted} drafted tokens accepted"
    return f"Round {done.index}: {accepted}, {drafting}{verifying}"


def by_position(depths: list[tuple[int, int]]) -> str:
    """Acceptance by position as a sentence."""
    if not depths:
        return "No drafted tokens yet."
    parts = [
        f"position {i}: {percent(accepted / offered)} of {offered}"
        for i, (offered, accepted) in enumerate(depths, start=1)
        if offered
    ]
    return f"Accepted of the tokens on offer at each position. {', '.join(parts)}."


def numbers(tally: AnswerTally | None) -> list[tuple[str, str]]:
    """The strip of numbers as (value, label), six of them."""
    now = tally.now if tally else None
    average = tally.tokens_per_s if tally else None
    return [
        (rate(now), "tokens/s now"),
        (rate(average), "answer average"),
        (duration(tally.ttft_s if tally else None), "first token"),
        (rate(tally.acceptance_length if tally else None), "acceptance length"),
        (percent(tally.accepted_share if tally else None), "accepted"),
        (f"{tally.committed:,}" if tally else ABSENT, "tokens written"),
    ]
