"""The harness of all benchmarks of answers: strategies answer the same requests, in turns.

Turns go to and fro, with plain decoding between all others (P A P B P, P B P A P), and a speed-up
compares an answer with the plain ones right before and after it: on many machines the memory is
half as fast again from one second to the next. Speeds are medians, the acceptance length counts
rounds that drafted, and a strategy is exact where all its answers are the plain ones, token for
token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import Protocol, TypeVar

from engine.bench.prompts import BenchPrompt
from engine.errors import ContextFull
from engine.events import AnswerStats, Event, Finished
from engine.loading.load import LoadedPair
from engine.request import ChatRequest, Grammar, Message, Role, SamplingParams
from engine.session.answer import Answer

PLAIN = "plain"
ALL = "all"
"""The category that holds every prompt."""

T = TypeVar("T")


def to_and_fro(items: Sequence[T], turn: int) -> Sequence[T]:
    """Return the items in their order, in every other turn backwards."""
    return items if turn % 2 == 0 else items[::-1]


def answer(
    pair: LoadedPair,
    request: ChatRequest,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    share_noise: bool = True,
) -> Finished:
    """Have an answer written, and return its end.

    Args:
        pair: what answers.
        request: what is asked.
        cancelled: asked between rounds; true ends the answer early.
        share_noise: whether drafts are ranked with the target's noise.

    Raises:
        ContextFull: the prompt does not fit.
        UserFixable: it cannot be answered.
    """
    ended: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            ended.append(event)

    Answer(pair, request, listen, cancelled, share_noise=share_noise).write()
    return ended[-1]


def acceptance_length(answers: Iterable[AnswerStats]) -> float | None:
    """Tokens per round that verified something drafted, over several answers; None: no such."""
    tokens, rounds = 0.0, 0
    for stats in answers:
        if stats.acceptance_length is not None:
            drafting = stats.rounds - stats.plain_rounds
            tokens += stats.acceptance_length * drafting
            rounds += drafting
    return tokens / rounds if rounds else None


def plain_share(answers: Sequence[AnswerStats]) -> float | None:
    """Share of the rounds that drafted nothing; None without a round."""
    rounds = sum(stats.rounds for stats in answers)
    return sum(stats.plain_rounds for stats in answers) / rounds if rounds else None


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """One answer.

    Attributes:
        stats: its counts and times.
        token_ids: None where they are not known.
        ended: whether the model ended it.
        level_s, levels: seconds of a drafter's proposals, and the levels of their trees.
        plain_s: mean seconds of the plain answers right before and after it; None for plain ones.
    """

    stats: AnswerStats
    token_ids: tuple[int, ...] | None
    ended: bool
    level_s: float = 0.0
    levels: int = 0
    plain_s: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens after the first one, which `seconds` counts."""
        return max(self.stats.committed - 1, 0)

    @property
    def seconds(self) -> float:
        """Seconds from the first token to the last."""
        return self.stats.decode_seconds


class Writer(Protocol):
    """An object that writes answers."""

    def write(self, request: ChatRequest) -> BenchAnswer:
        """Answer a request.

        Raises:
            ContextFull: the prompt does not fit.
            UserFixable: it cannot be answered.
        """
        ...


@dataclass(slots=True)
class MeasuredStrategy:
    """A strategy of decoding, and the answers that it wrote.

    Attributes:
        writer: writes them.
        answers: by prompt, in the order of the prompts that were measured.
    """

    writer: Writer
    answers: list[list[BenchAnswer]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figures:
    """A strategy over the prompts of a category, beside plain decoding.

    A prompt's speed and seconds are the medians of its answers.

    Attributes:
        prompts: how many.
        tokens_per_s, speedup: median over prompts of speeds, and of ratios to plain.
        total_tokens_per_s, total_speedup: all tokens by all seconds, and plain decoding's seconds
            for them by these: the waiting of a user who asks every prompt.
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


def measure(
    strategies: Mapping[str, MeasuredStrategy],
    prompts: Sequence[BenchPrompt],
    sampling: SamplingParams,
    *,
    max_tokens: int,
    repeat: int,
    system: str | None = None,
    grammar: Grammar | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[BenchPrompt]:
    """Let every strategy answer every prompt `repeat` times, in turns to and fro.

    Prompts that do not fit, and answers too short to time, are left out of all strategies.

    Args:
        strategies: by name, with `PLAIN` first among them.
        prompts: each is sent as a user's first message.
        sampling: how tokens are drawn.
        max_tokens: of an answer.
        repeat: answers to each prompt by each strategy; plain decoding gives one before and after
            each of the others.
        system: what stands before the prompt.
        grammar: what every answer follows.
        progress: told how many prompts of how many are done.

    Returns:
        The prompts that were measured.
    """
    opening = (Message(Role.SYSTEM, system),) if system else ()
    measured: list[BenchPrompt] = []
    for number, prompt in enumerate(prompts):
        progress(number, len(prompts))
        messages = (*opening, Message(Role.USER, prompt.text))
        request = ChatRequest(f"bench-{number}", messages, sampling, max_tokens, grammar=grammar)
        try:
            if not measured:  # first answers are slow: they touch memory
                for strategy in strategies.values():
                    strategy.writer.write(request)
            written = _in_turns(strategies, request, repeat)
        except ContextFull:
            continue
        if any(not one.seconds for runs in written.values() for one in runs):
            continue
        for name, strategy in strategies.items():
            strategy.answers.append(written[name])
        measured.append(prompt)
    return measured


def _in_turns(
    strategies: Mapping[str, MeasuredStrategy], request: ChatRequest, repeat: int
) -> dict[str, list[BenchAnswer]]:
    """Return the answers of each strategy to one request."""
    plain, others = strategies[PLAIN].writer, [name for name in strategies if name != PLAIN]
    written: dict[str, list[BenchAnswer]] = {name: [] for name in strategies}
    before = plain.write(request)
    written[PLAIN].append(before)
    for turn in range(repeat):
        for name in to_and_fro(others, turn):
            one, after = strategies[name].writer.write(request), plain.write(request)
            between = (before.seconds + after.seconds) / 2
            written[name].append(replace(one, plain_s=between))
            written[PLAIN].append(after)
            before = after
    return written


def figures(
    strategies: Mapping[str, MeasuredStrategy],
    prompts: Sequence[BenchPrompt],
    against: str = PLAIN,
) -> dict[str, dict[str, Figures]]:
    """Return figures by category (`ALL` at the end) and strategy; nothing without prompts.

    Args:
        strategies: as they were measured.
        prompts: those that were.
        against: the strategy that speed-ups count from.
    """
    places: dict[str, list[int]] = {}
    for at, prompt in enumerate(prompts):
        places.setdefault(prompt.category, []).append(at)
    if prompts:
        places[ALL] = [*range(len(prompts))]
    base, plain = strategies[against], strategies[PLAIN]
    return {
        category: {name: _figures(each, base, plain, at) for name, each in strategies.items()}
        for category, at in places.items()
    }


def _figures(
    strategy: MeasuredStrategy,
    base: MeasuredStrategy,
    plain: MeasuredStrategy,
    places: Sequence[int],
) -> Figures:
    answers, bases, targets = (
        [each.answers[at] for at in places] for each in (strategy, base, plain)
    )
    every = [*chain(*answers)]
    stats = [one.stats for one in every]
    drafting = sum(one.rounds - one.plain_rounds for one in stats)
    seconds, levels = sum(one.seconds for one in every), sum(one.levels for one in every)
    draft = sum(one.draft_seconds for one in stats) / seconds
    verify = sum(one.verify_seconds for one in stats) / seconds
    t1 = median(one.stats.verify_seconds / one.stats.rounds for one in chain(*targets))
    took = [median(one.seconds for one in runs) for runs in answers]
    beside = [_beside(runs, other) for runs, other in zip(answers, bases, strict=True)]
    return Figures(
        prompts=len(places),
        tokens_per_s=median(map(_speed, answers)),
        speedup=median(
            median(other / one.seconds for other, one in zip(others, runs, strict=True))
            for others, runs in zip(beside, answers, strict=True)
        ),
        total_tokens_per_s=sum(runs[0].tokens for runs in answers) / sum(took),
        total_speedup=sum(map(median, beside)) / sum(took),
        acceptance_length=acceptance_length(stats),
        exact=all(_same((*one, *other)) for one, other in zip(answers, targets, strict=True)),
        drafted_per_round=sum(one.drafted for one in stats) / drafting if drafting else None,
        plain_share=plain_share(stats),
        t1_ms=1e3 * t1,
        c=sum(one.level_s for one in every) / levels / t1 if levels else None,
        draft_share=draft,
        verify_share=verify,
        rest_share=max(1 - draft - verify, 0.0),
    )


def _speed(runs: Sequence[BenchAnswer]) -> float:
    return median(one.tokens / one.seconds for one in runs)


def _beside(runs: Sequence[BenchAnswer], base: Sequence[BenchAnswer]) -> list[float]:
    """Return the base's seconds for as many tokens as each of these answers has."""
    speed, is_plain = _speed(base), base[0].plain_s is None
    return [
        one.plain_s * one.tokens / base[0].tokens
        if is_plain and one.plain_s is not None
        else one.tokens / speed
        for one in runs
    ]


def _same(answers: Sequence[BenchAnswer]) -> bool:
    texts = {one.token_ids for one in answers}
    return len(texts) == 1 and None not in texts
