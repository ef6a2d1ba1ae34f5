"""Tokens in words and as a table: what a screen reader says, what is copied. No Qt."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from app.performance import wording
from app.performance.chip_layout import traced
from app.performance.tally import AnswerTally
from app.performance.tokens import AnswerTokens, Token
from app.widgets.table import Row, Table, formatted
from engine.events import RoundFinished
from engine.language import number, tr, tr_count


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
        return wording.ABSENT
    if 0 < probability < 0.001:
        return tr("under {share}").format(share=number(0.001, ".1%"))
    return number(probability, ".1%" if probability < 0.1 else ".0%")


def summary(tokens: AnswerTokens, tally: AnswerTally | None) -> str:
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


def of_tokens(title: str, tokens: AnswerTokens) -> Table:
    """Every token with its round; those that were refused as well."""
    rounds = tuple(tokens.rounds)
    ends = list(accumulate(each.count for each in rounds))

    def row(index: int) -> Row:
        place = bisect_right(ends, index)
        each = rounds[place]
        token = each.tokens()[index - ends[place] + each.count]
        return (
            str(each.done.index),
            traced(token),
            tr(token.fate.value),
            chance(token.draft_probability),
            chance(token.probability),
        )

    columns = (tr("Round"), tr("Token"), tr("What became of it"), tr("Draft"), tr("Target"))
    return Table(title, columns, formatted(range(ends[-1] if ends else 0), row))
