"""The gain of drafting in one answer, in one line: measured, never guessed. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.performance import wording
from app.performance.tally import AnswerTally
from engine.language import number, sentences, tr

PAYS = 1.05
"""Speed relative to that without a draft from which on drafting is said to help."""
_COSTS = 0.97
_FEW_ROUNDS = 8
"""Before so many rounds nothing is said about an answer."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tokens per second without a draft; `at` in Unix time, None where it is from this answer."""

    tokens_per_s: float
    at: float | None = None


def gain_words(tally: AnswerTally | None, plain: Baseline | None, *, has_draft: bool) -> str:
    """Return how many times as fast drafting made the answer, and tokens per verification.

    Args:
        tally: sums of the answer.
        plain: the speed of the target alone, where it was measured.
        has_draft: whether there is anything to draft with.
    """
    if tally is None or tally.rounds < _FEW_ROUNDS:
        return ""
    if not has_draft:
        return tr("No draft is in use: the target writes every token itself.")
    length, now = tally.acceptance_length, tally.tokens_per_s
    if length is None or now is None:
        return tr("Nothing was drafted for this answer.")
    per_verification = tr("{length} tokens per verification.").format(length=wording.rate(length))
    if plain is None:
        unknown = tr("The speed without drafting has not been measured yet.")
        return sentences(per_verification, unknown)
    ratio = now / plain.tokens_per_s
    if ratio >= PAYS:
        faster = tr("{ratio} times as fast as without drafting.")
        return sentences(faster.format(ratio=number(ratio, ".1f")), per_verification)
    if 2 * tally.plain_rounds > tally.rounds:
        return tr("Drafting does not pay here, so the target mostly decodes alone.")
    if ratio >= _COSTS:
        return sentences(tr("About as fast as without drafting."), per_verification)
    slower = tr("Drafting costs more than it brings here: {ratio} times the speed without it.")
    return slower.format(ratio=number(ratio, ".2f"))
