"""The gain of drafting in one answer: measured, never guessed. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.performance import wording
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares
from app.performance.verdict import FEWEST, Outcome, SpeedVerdict
from engine.commands import Mode
from engine.language import listed, number, sentences, tr, tr_count


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
    verdict: SpeedVerdict | None,
    mode: Mode | None,
    note: str = "",
) -> Gain:
    """Return what drafting brings to an answer: one headline, and one sentence of cause.

    Args:
        tally: sums of the answer.
        shares: where its time went.
        verdict: passed on it when it ended; None where none was.
        mode: of the plan, where it is known.
        note: why the speed of the target alone is not known.
    """
    if tally is not None and tally.host:
        return _elsewhere(tally)
    if tally is None or not tally.rounds:
        return Gain(tr("No answer yet"), why=tr("Here it says how fast the answer is, and why."))
    now = tally.tokens_per_s
    if now is None or tally.committed < FEWEST:
        return Gain(_tokens(tally), why=tr("Too few tokens to measure a speed."))
    speed = SpeedBar(tr("With the draft"), now)
    counts, busy = _counts(tally), _busy_words(verdict)
    if not tally.drafted:
        alone = tr("Nothing was drafted: each pass of the model writes one token.")
        return _told(Gain(speed.value, counts=counts, why=alone), busy)
    if verdict is None or verdict.plain is None or verdict.outcome is Outcome.UNKNOWN:
        known = verdict is not None and verdict.plain is not None
        bars = (speed, SpeedBar(tr("Without it"), None, tr("not comparable") if known else note))
        return _told(Gain(speed.value, bars, counts, _why(shares, mode)), busy)
    bars = (speed, SpeedBar(tr("Without it"), verdict.plain.speed))
    ratio = verdict.ratio or 1.0
    match verdict.outcome:
        case Outcome.FASTER:
            figure = tr("{ratio}x faster").format(ratio=number(ratio, ".1f"))
            why = _why(shares, mode)
        case Outcome.SLOWER:
            figure = tr("{ratio}x the speed without the draft")
            figure = figure.format(ratio=number(ratio, ".2f"))
            why = _paused(tally) or tr("Drafting costs more time than it saves here.")
        case _:
            figure, why = tr("About as fast as without the draft"), _paused(tally)
    return _told(Gain(figure, bars, counts, why), busy)


def _told(gain: Gain, busy: str) -> Gain:
    """Put before everything else that other programs held the CPU: then that is the cause."""
    return replace(gain, counts=busy.removesuffix("."), why=f"{gain.counts}.") if busy else gain


def _busy_words(verdict: SpeedVerdict | None) -> str:
    """That other programs held the CPU is the cause, whatever else there is."""
    if verdict is None or verdict.others_cpu is None or not verdict.disturbed:
        return ""
    share = number(verdict.others_cpu / 100, ".0%")
    return tr("Other programs used {share} of the CPU meanwhile.").format(share=share)


def _elsewhere(tally: AnswerTally) -> Gain:
    """Return what is known of an answer that a server writes."""
    now, stats = tally.tokens_per_s, tally.stats
    counts = _tokens(tally) if tally.committed else ""
    if tally.acceptance_length is not None:
        counts = _counts(tally)
    why = tr("Written on {host}. Times are measured here and include the network.")
    bars: tuple[SpeedBar, ...] = ()
    if stats is not None and stats.host_tokens_per_s is not None:
        own = SpeedBar(tr("Reported by the server"), stats.host_tokens_per_s)
        bars = (SpeedBar(tr("Measured here"), now, tr("not measured yet")), own)
    figure = SpeedBar("", now, tr("No speed yet")).value
    return Gain(figure, bars, counts, why.format(host=tally.host), drafts=False)


def _tokens(tally: AnswerTally) -> str:
    return tr_count("{n} token", "{n} tokens", tally.committed)


def _counts(tally: AnswerTally) -> str:
    if tally.acceptance_length is None:
        return tr("{tokens} in {verifications}").format(
            tokens=_tokens(tally),
            verifications=tr_count("{n} verification", "{n} verifications", tally.rounds),
        )
    return tr("{tokens}, acceptance length {length}").format(
        tokens=_tokens(tally), length=wording.length(tally.acceptance_length)
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
    return how


def _paused(tally: AnswerTally) -> str:
    if 2 * tally.plain_rounds <= tally.rounds:
        return ""
    return tr("Drafting does not pay here, so the model mostly writes alone.")
