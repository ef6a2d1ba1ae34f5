"""The gain of drafting in one answer: measured, never guessed. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine_link.measured import FEWEST_TOKENS
from app.performance import wording
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares
from engine.commands import Mode
from engine.language import listed, number, sentences, tr, tr_count

PAYS = 1.05
"""Speed relative to that without a draft from which on drafting is said to help."""
_COSTS = 0.97


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tokens per second without a draft; `at` in Unix time, None where it is from this answer."""

    tokens_per_s: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedBar:
    """A speed with its name; `note` stands where the speed is not known."""

    name: str
    tokens_per_s: float | None
    note: str = ""

    @property
    def value(self) -> str:
        """Return the speed in words."""
        if self.tokens_per_s is None:
            return self.note
        return tr("{speed} tokens/s").format(speed=wording.rate(self.tokens_per_s))


@dataclass(frozen=True, slots=True)
class Gain:
    """The benefit of drafting, from the headline down to the reason.

    Attributes:
        figure: the headline.
        bars: the speeds with the draft and without it.
        counts: tokens and the verifications that they took.
        why: the reason, for people without any background.
        drafts: whether the bars are the speeds with the draft and without it.
    """

    figure: str
    bars: tuple[SpeedBar, ...] = ()
    counts: str = ""
    why: str = ""
    drafts: bool = True

    @property
    def words(self) -> str:
        """Return all of it as sentences."""
        figure, known = self.figure, [bar for bar in self.bars if bar.tokens_per_s is not None]
        if not self.drafts:
            figure = listed(f"{bar.name}: {bar.value}" for bar in known) or figure
        elif len(known) > 1:
            figure = tr("{gain}: {now}, {plain} without the draft").format(
                gain=figure,
                now=known[0].value,
                plain=wording.rate(known[1].tokens_per_s),
            )
        return sentences(*(f"{each}." for each in (figure, self.counts) if each), self.why)


def gain_of(
    tally: AnswerTally | None,
    shares: Shares | None,
    plain: Baseline | None,
    mode: Mode | None,
    note: str = "",
) -> Gain:
    """Return what drafting brings to an answer.

    Args:
        tally: sums of the answer.
        shares: where its time went.
        plain: the speed of the target alone, where it was measured.
        mode: of the plan, where it is known.
        note: why the speed of the target alone is not known.
    """
    if tally is not None and tally.host:
        return _elsewhere(tally)
    if tally is None or not tally.rounds:
        return Gain(tr("No answer yet"), why=tr("Here it says how fast the answer is, and why."))
    now = tally.tokens_per_s
    if now is None or tally.committed < FEWEST_TOKENS:
        return Gain(_tokens(tally), why=tr("Too few to tell a speed."))
    speed = SpeedBar(tr("With the draft"), now)
    counts = _counts(tally)
    if not tally.drafted:
        alone = tr("Nothing was drafted: each pass of the model writes one token.")
        return Gain(speed.value, counts=counts, why=alone)
    if plain is None:
        bars = (speed, SpeedBar(tr("Without it"), None, note))
        return Gain(speed.value, bars, counts, _why(shares, mode))
    bars = (speed, SpeedBar(tr("Without it"), plain.tokens_per_s))
    ratio = now / plain.tokens_per_s
    if ratio >= PAYS:
        faster = tr("{ratio}x faster").format(ratio=number(ratio, ".1f"))
        return Gain(faster, bars, counts, _why(shares, mode))
    if ratio >= _COSTS:
        return Gain(tr("As fast as without the draft"), bars, counts, _paused(tally))
    slower = tr("{ratio}x the speed without the draft").format(ratio=number(ratio, ".2f"))
    costs = tr("Drafting costs more time than it saves here.")
    return Gain(slower, bars, counts, sentences(costs, _paused(tally)))


def _elsewhere(tally: AnswerTally) -> Gain:
    """Return what is known of an answer that a server writes."""
    now, stats = tally.tokens_per_s, tally.stats
    counts = _tokens(tally) if tally.committed else ""
    if tally.acceptance_length is not None:
        length = wording.rate(tally.acceptance_length)
        counts = tr("{tokens}, acceptance length {length}").format(tokens=counts, length=length)
    why = tr("Written on {host}. Times are measured at this end, with the network.")
    bars: tuple[SpeedBar, ...] = ()
    if stats is not None and stats.host_tokens_per_s is not None:
        own = SpeedBar(tr("As the server tells it"), stats.host_tokens_per_s)
        bars = (SpeedBar(tr("Measured at this end"), now, tr("not measured yet")), own)
    figure = SpeedBar("", now, tr("No speed yet")).value
    return Gain(figure, bars, counts, why.format(host=tally.host), drafts=False)


def _tokens(tally: AnswerTally) -> str:
    return tr_count("{n} token", "{n} tokens", tally.committed)


def _counts(tally: AnswerTally) -> str:
    return tr("{tokens} in {verifications}, {each} each").format(
        tokens=_tokens(tally),
        verifications=tr_count("{n} verification", "{n} verifications", tally.rounds),
        each=wording.rate(tally.per_verification),
    )


def _why(shares: Shares | None, mode: Mode | None) -> str:
    if shares is not None and shares.looks_up:
        how = tr(
            "Words that came before are proposed again, which takes no time, and one pass of the "
            "model verifies several at once."
        )
    elif mode is Mode.DUO:
        how = tr(
            "The draft proposes the next tokens while the model still verifies the last ones, and "
            "one pass of the model verifies several at once."
        )
    elif mode is Mode.DOVETAIL:
        how = tr(
            "The draft on the GPU proposes several tokens, and the large model verifies them in "
            "one pass, which takes hardly longer than writing one."
        )
    else:
        how = tr(
            "A small draft proposes several tokens, and the model verifies them in one pass, "
            "which takes hardly longer than writing one."
        )
    return sentences(how, tr("The text stays the same."))


def _paused(tally: AnswerTally) -> str:
    if 2 * tally.plain_rounds <= tally.rounds:
        return ""
    return tr("Drafting does not pay here, so the model mostly writes alone.")
