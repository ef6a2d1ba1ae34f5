"""Several ways to write the same answers, in turns and in one run: speed, and where time goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import Protocol

from engine.bench.prompts import BenchPrompt
from engine.bench.timed_draft import TimedDrafter
from engine.errors import ContextFull
from engine.events import Event, Finished, FinishReason
from engine.loading.load import LoadedPair
from engine.request import ChatRequest, Message, Role, SamplingParams
from engine.session.answer import Answer
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.loops import Plain, Serial

PLAIN = "plain"
ALL = "all"
"""The category that holds every prompt."""


@dataclass(frozen=True, slots=True)
class Written:
    """One answer.

    Attributes:
        tokens: behind the first.
        seconds: from the first token to the last.
        token_ids: None where they are not known.
        ended: whether the model ended it.
        rounds: target forwards behind the first; `drafting_rounds` of them verified a draft of
            `drafted` tokens in all, and wrote `drafting_tokens`.
        draft_s, verify_s: seconds in which the draft and the target computed.
        level_s, levels: seconds of a drafter's proposals, and the levels of their trees.
    """

    tokens: int
    seconds: float
    token_ids: tuple[int, ...] | None
    ended: bool
    rounds: int = 0
    drafting_rounds: int = 0
    drafted: int = 0
    drafting_tokens: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    level_s: float = 0.0
    levels: int = 0


class Writer(Protocol):
    """Something that answers."""

    def write(self, request: ChatRequest) -> Written:
        """Answer a request.

        Raises:
            ContextFull: the prompt does not fit.
            UserFixable: it cannot be answered.
        """
        ...


class PairWriter:
    """A loaded pair as a writer; the last of its drafters has a clock.

    Args:
        pair: target and what drafts.
        share_noise: whether drafts are ranked with the target's noise.
    """

    def __init__(self, pair: LoadedPair, *, share_noise: bool = True) -> None:
        self._share_noise = share_noise
        self._clock: TimedDrafter | None = None
        loop = pair.loop
        if isinstance(loop, Serial) and isinstance(loop.drafter, CombinedDrafter):
            *others, last = loop.drafter.drafters
            self._clock = TimedDrafter(last)
            loop = replace(loop, drafter=CombinedDrafter([*others, self._clock]))
            pair = replace(pair, loop=loop)
        self.pair = pair
        self.tokens = 0
        """Tokens of the last answer, the first one left out."""

    def write(self, request: ChatRequest) -> Written:
        """See `Writer`."""
        clock = self._clock
        if clock is not None:
            clock.seconds, clock.levels = 0.0, 0
        finished: list[Finished] = []

        def listen(event: Event) -> None:
            if isinstance(event, Finished):
                finished.append(event)

        Answer(self.pair, request, listen, lambda: False, share_noise=self._share_noise).write()
        (done,) = finished
        stats = done.stats
        self.tokens = max(stats.committed - 1, 0)
        drafting = stats.rounds - stats.plain_rounds
        return Written(
            tokens=self.tokens,
            seconds=stats.decode_seconds,
            token_ids=done.token_ids,
            ended=done.reason is FinishReason.STOP,
            rounds=stats.rounds,
            drafting_rounds=drafting,
            drafted=stats.drafted,
            drafting_tokens=drafting * (stats.acceptance_length or 0.0),
            draft_s=stats.draft_seconds,
            verify_s=stats.verify_seconds,
            level_s=clock.seconds if clock else 0.0,
            levels=clock.levels if clock else 0,
        )


def without_draft(pair: LoadedPair) -> LoadedPair:
    """The pair's target alone."""
    return replace(pair, loop=Plain())


@dataclass(slots=True)
class Way:
    """A way to write answers, and those that it wrote.

    Attributes:
        writer: writes them.
        answers: by prompt, in the order of the prompts that were measured.
    """

    writer: Writer
    answers: list[list[Written]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figures:
    """A way over the prompts of a category, beside the plain way.

    A prompt's speed and seconds are the medians of its answers.

    Attributes:
        prompts: how many.
        tokens_per_s, speedup: median over prompts of speeds, and of ratios to plain.
        total_tokens_per_s, total_speedup: all tokens by all seconds, and that to plain: what
            somebody waits for who asks all of it.
        acceptance_length: tokens per round with a draft; None: nothing was drafted.
        exact: whether every answer was the target's own, token for token.
        drafted_per_round: in rounds that drafted.
        plain_share: share of rounds that did not.
        t1_ms: median of a plain round's verification, the papers' T(1).
        c: a level of drafting, overhead included, as a share of T(1); with lookup beside a model,
            the model's level. None where nothing was drafted in turns.
        draft_share, verify_share, rest_share: shares of the time.
    """

    prompts: int
    tokens_per_s: float
    speedup: float
    total_tokens_per_s: float
    total_speedup: float
    acceptance_length: float | None
    exact: bool
    drafted_per_round: float | None
    plain_share: float | None
    t1_ms: float
    c: float | None
    draft_share: float
    verify_share: float
    rest_share: float


def measure_ways(
    ways: Mapping[str, Way],
    prompts: Sequence[BenchPrompt],
    sampling: SamplingParams,
    *,
    max_tokens: int,
    repeat: int,
    system: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[BenchPrompt]:
    """Let every way answer every prompt `repeat` times, forwards and backwards in turn.

    Prompts that do not fit, and answers too short to time, are left out of all ways.

    Args:
        ways: by name, with `PLAIN` first among them.
        prompts: each is sent as a user's first message.
        sampling: how tokens are drawn.
        max_tokens: of an answer.
        repeat: answers to each prompt each way.
        system: what stands before the prompt.
        progress: told how many prompts of how many are done.

    Returns:
        The prompts that were measured.
    """
    opening = (Message(Role.SYSTEM, system),) if system else ()
    measured: list[BenchPrompt] = []
    for number, prompt in enumerate(prompts):
        progress(number, len(prompts))
        messages = (*opening, Message(Role.USER, prompt.text))
        request = ChatRequest(f"bench-{number}", messages, sampling, max_tokens)
        written: dict[str, list[Written]] = {name: [] for name in ways}
        try:
            if not measured:  # first answers are slow: they touch memory
                for way in ways.values():
                    way.writer.write(request)
            for turn in range(repeat):
                for name in [*ways] if turn % 2 == 0 else [*ways][::-1]:
                    written[name].append(ways[name].writer.write(request))
        except ContextFull:
            continue
        if any(not one.seconds for runs in written.values() for one in runs):
            continue
        for name, way in ways.items():
            way.answers.append(written[name])
        measured.append(prompt)
    return measured


def figures(
    ways: Mapping[str, Way], prompts: Sequence[BenchPrompt], against: str = PLAIN
) -> dict[str, dict[str, Figures]]:
    """By category (`ALL` at the end) and way; nothing without prompts.

    Args:
        ways: as they were measured.
        prompts: those that were.
        against: the way that speed-ups count from.
    """
    places: dict[str, list[int]] = {}
    for at, prompt in enumerate(prompts):
        places.setdefault(prompt.category, []).append(at)
    if prompts:
        places[ALL] = [*range(len(prompts))]
    base, plain = ways[against], ways[PLAIN]
    return {
        category: {name: _figures(way, base, plain, at) for name, way in ways.items()}
        for category, at in places.items()
    }


def _figures(way: Way, base: Way, plain: Way, places: Sequence[int]) -> Figures:
    answers, bases, targets = ([each.answers[at] for at in places] for each in (way, base, plain))
    every = [*chain(*answers)]
    rounds, drafting = _sum(every, "rounds"), _sum(every, "drafting_rounds")
    seconds, levels = _sum(every, "seconds"), _sum(every, "levels")
    draft, verify = _sum(every, "draft_s") / seconds, _sum(every, "verify_s") / seconds
    t1 = median(one.verify_s / one.rounds for one in chain(*targets))
    speeds = [_speed(runs) for runs in answers]
    total = _total_speed(answers)
    return Figures(
        prompts=len(places),
        tokens_per_s=median(speeds),
        speedup=median(speed / _speed(runs) for speed, runs in zip(speeds, bases, strict=True)),
        total_tokens_per_s=total,
        total_speedup=total / _total_speed(bases),
        acceptance_length=_sum(every, "drafting_tokens") / drafting if drafting else None,
        exact=all(_same((*one, *other)) for one, other in zip(answers, targets, strict=True)),
        drafted_per_round=_sum(every, "drafted") / drafting if drafting else None,
        plain_share=1 - drafting / rounds if rounds else None,
        t1_ms=1e3 * t1,
        c=_sum(every, "level_s") / levels / t1 if levels else None,
        draft_share=draft,
        verify_share=verify,
        rest_share=max(1 - draft - verify, 0.0),
    )


def _speed(runs: Sequence[Written]) -> float:
    return median(one.tokens / one.seconds for one in runs)


def _same(answers: Sequence[Written]) -> bool:
    texts = {one.token_ids for one in answers}
    return len(texts) == 1 and None not in texts


def _total_speed(answers: Sequence[Sequence[Written]]) -> float:
    tokens = sum(runs[0].tokens for runs in answers)
    return tokens / sum(median(one.seconds for one in runs) for runs in answers)


def _sum(answers: Sequence[Written], name: str) -> float:
    values: list[float] = [getattr(one, name) for one in answers]
    return sum(values)
