"""Rules that find what limits the speed, each with a measured number. No Qt, no guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from app.performance import wording
from app.performance.evidence import Evidence
from engine.commands import Mode
from engine.language import number, sentences, tr, units
from engine.machine.facts import CPU
from engine.machine.speeds import SMALL_BYTES

_FEW_ROUNDS = 8
"""Before so many rounds nothing is said about an answer."""
_MOST = 3
"""Findings that are told: the fourth would not be read."""


class FindingKind(StrEnum):
    """Kinds of findings."""

    DRAFT_COSTS = "draft costs"
    DRAFT_SLOW = "draft slow"
    HARDLY_ACCEPTED = "hardly accepted"
    PAUSED = "drafting paused"
    TARGET_WAITS = "target waits"
    COPYING = "copying"
    PYTHON = "python"
    OTHERS_CPU = "others on the cpu"
    OTHERS_GPU = "others on the card"
    THREADS = "threads"
    LONG_CONTEXT = "long context"
    CONTEXT_FULL = "context full"
    PROMPT = "prompt"
    LIMIT = "limit"
    """The speed is as high as the device allows."""
    SIMULATED = "simulated"
    NOTHING = "nothing"
    """Nothing was found; tells what the time goes into."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that takes time.

    Attributes:
        weight: about the share of the time that it costs; the heaviest is told first.
        sentence: the measurement in words.
        remedy: advice; empty where there is nothing to do.
    """

    kind: FindingKind
    weight: float
    sentence: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """Return the sentence and the remedy."""
        return sentences(self.sentence, self.remedy)


def findings(seen: Evidence) -> list[Finding]:
    """Return what takes time, the heaviest first; where nothing stands out, the limiting device.

    Empty while there is too little to go by.
    """
    tally, shares = seen.tally, seen.shares
    if tally is None or shares is None or tally.rounds < _FEW_ROUNDS:
        return []
    found = [each for rule in _RULES for each in rule(seen)]
    found.sort(key=lambda each: -each.weight)
    del found[_MOST:]
    if not found:
        found += _limit(seen) or _nothing(seen)
    return found + _simulated(seen)


Rule = Callable[[Evidence], Iterable[Finding]]


# -- the draft -----------------------------------------------------------------------------

_COSTS = 0.97
"""Below so much of the speed without a draft, drafting costs more than it brings."""
_LITTLE = 0.3
_MANY_DRAFTED = 40
_PAUSED = 0.5
_WAITS = 0.35


def _draft_costs(seen: Evidence) -> Iterable[Finding]:
    """Slower than without a draft, by measurement."""
    tally, without = seen.tally, seen.without_draft
    now = tally.tokens_per_s if tally else None
    if tally is None or now is None or without is None or not tally.drafted:
        return
    if now < _COSTS * without:
        yield Finding(
            FindingKind.DRAFT_COSTS,
            1 - now / without,
            tr(
                "The draft costs more than it brings: {now} tokens/s with it, {without} without."
            ).format(now=wording.rate(now), without=wording.rate(without)),
            tr("Switch the draft off, or choose a smaller one."),
        )


def _draft_slow(seen: Evidence) -> Iterable[Finding]:
    """Find that in serial rounds drafting takes longer than verifying."""
    draft, verify, shares = seen.draft_s, seen.verify_s, seen.shares
    if draft is None or verify is None or shares is None or shares.both > 0.5 * shares.draft:
        return
    if draft > verify:
        yield Finding(
            FindingKind.DRAFT_SLOW,
            shares.draft - shares.both,
            tr("Drafting takes longer than verifying: {draft} per round, against {verify}.").format(
                draft=wording.duration(draft), verify=wording.duration(verify)
            ),
            tr("A smaller draft, or one on a faster device, would help."),
        )


def _hardly_accepted(seen: Evidence) -> Iterable[Finding]:
    tally, shares = seen.tally, seen.shares
    if tally is None or shares is None or tally.drafted < _MANY_DRAFTED:
        return
    share, plan = tally.accepted_share, seen.plan
    made_for_it = plan is not None and plan.draft_is_head
    remedy = "" if made_for_it else tr("A draft made for this model may be accepted more often.")
    if share is not None and share < _LITTLE:
        yield Finding(
            FindingKind.HARDLY_ACCEPTED,
            max(shares.draft * (1 - share), 0.1),
            tr("The draft is rarely accepted: {accepted} of {drafted} drafted tokens.").format(
                accepted=number(tally.accepted), drafted=number(tally.drafted)
            ),
            remedy,
        )


def _paused(seen: Evidence) -> Iterable[Finding]:
    """Most rounds went without a draft although there is one."""
    tally, plan = seen.tally, seen.plan
    if tally is None or plan is None or plan.draft is None or not tally.drafted:
        return
    if tally.plain_rounds >= _PAUSED * tally.rounds:
        yield Finding(
            FindingKind.PAUSED,
            0.1,
            tr("{n} of {all} rounds had no draft: drafting did not pay there.").format(
                n=number(tally.plain_rounds), all=number(tally.rounds)
            ),
        )


def _target_waits(seen: Evidence) -> Iterable[Finding]:
    shares, draft, verify = seen.shares, seen.draft_s, seen.verify_s
    if shares is None or (draft and verify and draft > verify and not shares.both):
        return  # that the draft is slow has been said
    waits = shares.draft - shares.both
    if waits >= _WAITS:
        both = seen.plan is not None and seen.plan.mode is Mode.DUO
        yield Finding(
            FindingKind.TARGET_WAITS,
            waits,
            tr("The target waits for the draft for {share} of the time.").format(
                share=wording.percent(waits)
            ),
            tr("A faster draft would keep it busy.")
            if both
            else tr("A smaller draft would make it wait less."),
        )


# -- the machine ---------------------------------------------------------------------------

_MUCH_COPYING = 0.08
_MUCH_PYTHON = 0.15
_OTHERS_PERCENT = 20.0
_OTHERS_BYTES = 1 << 29


def _copying(seen: Evidence) -> Iterable[Finding]:
    shares = seen.shares
    if shares is not None and shares.copying >= _MUCH_COPYING:
        yield Finding(
            FindingKind.COPYING,
            shares.copying,
            tr("Copying between CPU and GPU takes {share} of the time.").format(
                share=wording.percent(shares.copying)
            ),
            tr("With more layers on one device, less is copied."),
        )


def _python(seen: Evidence) -> Iterable[Finding]:
    shares = seen.shares
    if shares is not None and shares.neither - shares.copying >= _MUCH_PYTHON:
        yield Finding(
            FindingKind.PYTHON,
            shares.neither - shares.copying,
            tr("Sampling and Python take {share} of the time: the model itself is quick.").format(
                share=wording.percent(shares.neither - shares.copying)
            ),
        )


def _others_on_cpu(seen: Evidence) -> Iterable[Finding]:
    others = seen.others_cpu
    if others is not None and others >= _OTHERS_PERCENT:
        yield Finding(
            FindingKind.OTHERS_CPU,
            others / 100,
            tr("Other programs use {share} of the CPU.").format(
                share=wording.percent(others / 100)
            ),
            tr("Close what you do not need."),
        )


def _others_on_card(seen: Evidence) -> Iterable[Finding]:
    """Find other programs' GPU memory, where layers had to stay outside for it."""
    plan, sample = seen.plan, seen.sample
    card = sample.accelerator if sample else None
    if plan is None or card is None or card.memory_used is None or card.memory_ours is None:
        return
    outside = plan.layers - plan.layers_on_gpu
    others = card.memory_used - card.memory_ours
    if plan.layers_on_gpu and outside > 0 and others >= _OTHERS_BYTES:
        yield Finding(
            FindingKind.OTHERS_GPU,
            0.5 * outside / plan.layers,
            tr(
                "Other programs use {memory} of {card}; {n} of {all} layers do not fit on it."
            ).format(
                memory=units.memory(others),
                card=card.name,
                n=number(outside),
                all=number(plan.layers),
            ),
            tr("Close them, then load the model again."),
        )


def _threads(seen: Evidence) -> Iterable[Finding]:
    threads, cores = seen.threads, seen.cores
    if threads is not None and cores and threads > cores:
        yield Finding(
            FindingKind.THREADS,
            1 - cores / threads,
            tr("{threads} threads share {cores} cores: they wait for each other.").format(
                threads=number(threads), cores=number(cores)
            ),
            tr("Start Duotail without DUOTAIL_THREADS, or with fewer."),
        )


# -- the context ---------------------------------------------------------------------------

_FULL = 0.9
_LONG = 0.25
_SLOW_PROMPT_S = 2.0


def _context(seen: Evidence) -> Iterable[Finding]:
    plan, used = seen.plan, seen.context_used
    if plan is None or not plan.context or not used:
        return
    share = used / plan.context
    if share >= _FULL:
        yield Finding(
            FindingKind.CONTEXT_FULL,
            0.2,
            tr("The context is nearly full: {used} of {all} tokens.").format(
                used=number(used), all=number(plan.context)
            ),
            tr("Start a new chat, or load the model with a longer context."),
        )
    keys = plan.kv_bytes * min(share, 1.0)
    if plan.target_bytes and keys >= _LONG * plan.target_bytes:
        yield Finding(
            FindingKind.LONG_CONTEXT,
            keys / (keys + plan.target_bytes),
            tr(
                "The conversation is long: every token reads {keys} of KV cache, besides "
                "{weights} of weights."
            ).format(keys=units.memory(round(keys)), weights=units.memory(plan.target_bytes)),
            tr("A new chat is quicker."),
        )


def _prompt(seen: Evidence) -> Iterable[Finding]:
    """The first token took longer than the rest of the answer."""
    tally, shares = seen.tally, seen.shares
    first = tally.ttft_s if tally else None
    if first is None or shares is None or first < _SLOW_PROMPT_S or first < shares.seconds:
        return
    yield Finding(
        FindingKind.PROMPT,
        first / (first + shares.seconds),
        tr("Reading the prompt took {first}, writing since then {rest}.").format(
            first=wording.duration(first), rest=wording.duration(shares.seconds)
        ),
        tr("The prompt is cached: the next answer in this chat starts sooner."),
    )


_RULES: tuple[Rule, ...] = (
    _draft_costs,
    _draft_slow,
    _hardly_accepted,
    _paused,
    _target_waits,
    _copying,
    _python,
    _others_on_cpu,
    _others_on_card,
    _threads,
    _context,
    _prompt,
)


# -- where nothing stands out --------------------------------------------------------------

_NEAR = 0.6
_BEYOND = 1.25
"""Beyond what memory gives: a cache served it, and memory is not the limit."""


def _limit(seen: Evidence) -> list[Finding]:
    """Find how near verifying is to the measured speed of the memory it reads from."""
    plan, speeds, verify = seen.plan, seen.speeds, seen.verify_s
    if plan is None or speeds is None or not speeds.measured or not verify:
        return []
    read = [each for each in plan.memory if each.target]
    if not read or any(each.device not in speeds.devices for each in read):
        return []
    if sum(each.target for each in read) <= SMALL_BYTES:
        return []  # caches serve it
    took = {
        each.device: each.target / speeds.devices[each.device].read_bytes_per_s for each in read
    }
    share = sum(took.values()) / verify
    if not _NEAR <= share <= _BEYOND:
        return []
    slowest = max(took, key=lambda device: took[device])
    amount = sum(each.target for each in read if each.device == slowest)
    there = speeds.devices[slowest].read_bytes_per_s
    said = (
        tr("About as fast as this computer's memory allows: verification takes {verify}, of "
"which reading {amount} of weights at {speed} GiB/s alone takes {read}.")
        if slowest == CPU
        else tr("About as fast as the GPU allows: verification takes {verify}, of which "
"reading {amount} of weights at {speed} GiB/s alone takes {read}.")
    )  # fmt: skip
    return [
        Finding(
            FindingKind.LIMIT,
            0.0,
            said.format(
                verify=wording.duration(verify),
                amount=units.memory(amount),
                speed=number(there / wording.GIB, ".1f"),
                read=wording.duration(took[slowest]),
            ),
            tr("A smaller or more strongly quantised model would be faster."),
        )
    ]


def _nothing(seen: Evidence) -> list[Finding]:
    shares, verify = seen.shares, seen.verify_s
    if shares is None or verify is None:
        return []
    said = tr("No bottleneck: verification takes {share} of the time, {verify} per round.")
    words = said.format(share=wording.percent(shares.verify), verify=wording.duration(verify))
    return [Finding(FindingKind.NOTHING, 0.0, words)]


def _simulated(seen: Evidence) -> list[Finding]:
    """Find that a simulated GPU takes part: its speed says nothing about a real one."""
    card = seen.sample.accelerator if seen.sample else None
    takes_part = (
        any(each.device != CPU and each.total for each in seen.plan.memory) if seen.plan else False
    )
    if card is None or not card.simulated or not takes_part:
        return []
    said = tr("The GPU is simulated: a real one has other speeds.")
    return [Finding(FindingKind.SIMULATED, 0.0, said)]
