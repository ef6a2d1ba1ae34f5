"""Numbers and findings in words: the same texts for the eye and for screen readers. No Qt."""

from __future__ import annotations

from enum import StrEnum

from app.engine_link.measured import FEWEST_TOKENS
from app.performance.chip_layout import traced
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares, Timeline, overlap
from app.performance.tokens import AnswerTokens, Token
from engine.events import RoundFinished
from engine.language import later, listed, number, sentences, tr, tr_count, units

ABSENT = "–"
GIB = 2**30
_NOTEWORTHY = 0.05
"""Smaller shares of the time are not worth a sentence."""
_SHOWN_S = 5e-5
"""Less would be written as nothing."""
_COUNTS = 0.005
"""Smaller shares would be told as nothing."""


class DraftPart(StrEnum):
    """Uses of the draft's time."""

    USEFUL = later("useful")
    WASTED = later("wasted")
    OPEN = later("undecided")
    IDLE = later("idle")

    @property
    def words(self) -> str:
        """Return the name for people."""
        return tr(self.value)


def rate(value: float | None) -> str:
    """Return tokens per second."""
    return ABSENT if value is None else units.tokens_per_s(value)


def length(value: float | None) -> str:
    """Return an acceptance length."""
    return ABSENT if value is None else units.acceptance_length(value)


def percent(share: float | None) -> str:
    """A share from 0 to 1 as a whole percentage."""
    return ABSENT if share is None else number(share, ".0%")


def duration(seconds: float | None) -> str:
    """A time with the unit that suits it."""
    return ABSENT if seconds is None else units.duration(seconds)


def span(seconds: float) -> str:
    """A stretch of time on an axis, without needless decimals."""
    if seconds < 1:
        return units.milliseconds(1000 * seconds, "g")
    if seconds < 60:
        return units.seconds(seconds, "g")
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if rest else units.minutes(minutes, "d")


def since_begin(seconds: float) -> str:
    """A moment on an axis that begins with an answer; sums of floats may miss that a little."""
    return duration(seconds) if seconds >= _SHOWN_S else "0"


def memory(used: int | None, total: int | None) -> str:
    """Memory used, of how much."""
    if used is None:
        return ABSENT
    if total is None:
        return units.gibibytes(used / GIB, _gib_spec(used))
    whole = units.gibibytes(total / GIB, _gib_spec(total))
    return tr("{used} of {total}").format(used=number(used / GIB, _gib_spec(used)), total=whole)


def _gib_spec(count: int) -> str:
    return ".2f" if count < 9.995 * GIB else ".1f"


def where_time_goes(timeline: Timeline, tally: AnswerTally | None) -> str:
    """The sentence under the timeline."""
    shares = timeline.shares
    if shares is None or tally is None or not tally.rounds:
        return tr("Each round of drafting and verifying shows here while an answer is written.")
    if not shares.draft and not tally.drafted:
        said = tr("No drafting: the target works {share} of the time.").format(
            share=percent(shares.verify)
        )
    elif shares.looks_up:
        said = tr(
            "Drafts are looked up in earlier text, which takes no time; the target works {share} "
            "of it."
        ).format(share=percent(shares.verify))
    elif shares.both >= _NOTEWORTHY:
        said = tr(
            "Both are busy {both} of the time; the draft is idle {draft}, the target {target}."
        ).format(
            both=percent(shares.both),
            draft=percent(1 - shares.draft),
            target=percent(1 - shares.verify),
        )
    else:
        said = tr(
            "Drafting takes {draft} of the time, in which the target waits; verifying {target}."
        ).format(draft=percent(shares.draft), target=percent(shares.verify))
    return sentences(said, *_more(shares, tally))


def _more(shares: Shares, tally: AnswerTally) -> list[str]:
    more = []
    if shares.neither >= _NOTEWORTHY:
        more.append(tr("Sampling and Python take {share}.").format(share=percent(shares.neither)))
    if shares.draft and tally.plain_rounds:
        more.append(
            tr("{n} of {all} rounds went without a draft (outlined).").format(
                n=number(tally.plain_rounds), all=number(tally.rounds)
            )
        )
    return more


def one_round(done: RoundFinished) -> str:
    """One round, for a tooltip."""
    verifying = tr("verifying {time}").format(time=duration(done.verify.seconds))
    if not done.drafted and not done.drafting:
        return tr("Round {n}: no draft, {verifying}").format(n=done.index, verifying=verifying)
    accepted = tr("{accepted} of {drafted} drafted tokens accepted")
    parts = [
        accepted.format(accepted=done.accepted, drafted=done.drafted)
        if done.drafted
        else tr("no draft")
    ]
    if done.drafting:
        parts.append(tr("drafting {time}").format(time=duration(done.drafting_s)))
    parts.append(verifying)
    if done.useful_s + done.wasted_s > 0:
        parts.append(
            tr("of this useful {useful}, wasted {wasted}").format(
                useful=duration(done.useful_s), wasted=duration(done.wasted_s)
            )
        )
    if done.transfers:
        copied = sum(each.seconds for each in done.transfers)
        parts.append(tr("copying {time}").format(time=duration(copied)))
    if (both := overlap(done)) > 0:
        parts.append(tr("both at once {time}").format(time=duration(both)))
    return tr("Round {n}: {parts}").format(n=done.index, parts=listed(parts))


def draft_parts(shares: Shares | None) -> list[tuple[DraftPart, float]]:
    """Return the shares of the draft's time, as shown; what is still open only if it counts."""
    if shares is None or shares.looks_up:
        return []
    found = [(DraftPart.USEFUL, shares.useful), (DraftPart.WASTED, shares.wasted)]
    if shares.open >= _COUNTS:
        found.append((DraftPart.OPEN, shares.open))
    return [*found, (DraftPart.IDLE, 1 - shares.draft)]


def draft_time(shares: Shares | None) -> str:
    """Return the shares of the draft's time as a sentence."""
    parts = draft_parts(shares)
    if shares is not None and shares.draft and not parts:
        return tr("Drafts are looked up, which takes no time.")
    if not parts:
        return tr("Nothing was drafted yet.")
    said = (f"{part.words} {percent(share)}" for part, share in parts)
    return tr("The draft's time: {parts}.").format(parts=listed(said))


def by_position(depths: list[tuple[int, int]]) -> str:
    """Acceptance by position as a sentence."""
    if not depths:
        return tr("No drafted tokens yet.")
    parts = [
        tr("position {n}: {share} of {offered}").format(
            n=i, share=percent(accepted / offered), offered=number(offered)
        )
        for i, (offered, accepted) in enumerate(depths, start=1)
        if offered
    ]
    return tr("Accepted of the tokens on offer at each position. {list}.").format(
        list=listed(parts)
    )


NUMBER_TERMS = (
    *(later("Tokens per second"), later("Tokens per second"), later("First token after")),
    *(later("Acceptance length"), later("Accepted"), later("Round")),
)
"""The technical terms behind `numbers`, as in `terms.TERMS`."""


def numbers(tally: AnswerTally | None) -> list[tuple[str, str]]:
    """The strip of numbers as (value, label), six of them."""
    enough = tally is not None and tally.committed >= FEWEST_TOKENS
    now = tally.now if tally and enough else None
    average = tally.tokens_per_s if tally and enough else None
    return [
        (rate(now), tr("tokens/s now")),
        (rate(average), tr("answer average")),
        (duration(tally.ttft_s if tally else None), tr("first token")),
        (length(tally.acceptance_length if tally else None), tr("acceptance length")),
        (percent(tally.accepted_share if tally else None), tr("accepted")),
        (number(tally.committed) if tally else ABSENT, tr("tokens written")),
    ]


def ago(seconds: float) -> str:
    """A moment before the present."""
    return tr("now") if seconds < 0.05 else tr("{time} ago").format(time=duration(seconds))


def one_token(done: RoundFinished, token: Token) -> str:
    """A token, what became of it, and what it was given, as far as that is known."""
    parts = [
        tr("“{token}”").format(token=traced(token)),
        tr(token.fate.value),
        tr("round {number}").format(number=number(done.index)),
    ]
    if token.draft_probability is not None:
        parts.append(tr("draft {share}").format(share=chance(token.draft_probability)))
    if token.probability is not None:
        parts.append(tr("target {share}").format(share=chance(token.probability)))
    return " · ".join(parts)


def chance(probability: float | None) -> str:
    """A probability; small ones are not told as nothing."""
    if probability is None:
        return ABSENT
    if 0 < probability < 0.001:
        return tr("under {share}").format(share=number(0.001, ".1%"))
    return number(probability, ".1%" if probability < 0.1 else ".0%")


def token_counts(tokens: AnswerTokens, tally: AnswerTally | None) -> str:
    """Return the number of tokens, and how many of them were drafted."""
    if not tokens.rounds or tally is None:
        return tr("No tokens yet.")
    written = tr_count("{n} token", "{n} tokens", tally.committed)
    rounds = tr_count("{n} round", "{n} rounds", len(tokens.rounds) + tokens.dropped)
    if not tally.drafted:
        return tr("{tokens} in {rounds}, none of them drafted.").format(
            tokens=written, rounds=rounds
        )
    return tr("{tokens} in {rounds}; {accepted} of {drafted} drafted ones accepted.").format(
        tokens=written,
        rounds=rounds,
        accepted=number(tally.accepted),
        drafted=number(tally.drafted),
    )
