"""Speculative against plain decoding: same prompts, same run, interleaved, and exactly equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from engine.answering import Answer
from engine.bench.prompts import BenchPrompt
from engine.errors import UserFixable
from engine.events import Event, Finished
from engine.loading.load import LoadedPair
from engine.request import ChatRequest, Message, Role, SamplingParams


@dataclass(frozen=True, slots=True)
class PromptResult:
    """One prompt, decoded both ways."""

    category: str
    plain_tokens_per_s: float
    tokens_per_s: float
    acceptance_length: float | None
    accepted_rounds_weight: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """Several prompts: medians of speeds and of their ratios, mean acceptance length by rounds."""

    speedup: float
    plain_tokens_per_s: float
    tokens_per_s: float
    acceptance_length: float | None
    exact: bool
    prompts: int


def measure(
    pair: LoadedPair,
    prompts: Sequence[BenchPrompt],
    sampling: SamplingParams,
    *,
    max_tokens: int,
    repeat: int = 1,
    share_noise: bool = True,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[PromptResult]:
    """Decode every prompt plainly and speculatively, in turns.

    Prompts that do not fit the context, and answers too short to time, are left out.
    """
    plain = replace(pair, drafter=None, lane=None)
    results = []
    for number, prompt in enumerate(prompts):
        progress(number, len(prompts))
        request = ChatRequest(
            f"bench-{number}", (Message(Role.USER, prompt.text),), sampling, max_tokens
        )
        runs: dict[bool, list[Finished]] = {False: [], True: []}
        try:
            for turn in range(2 * repeat):
                # plain, draft, draft, plain, ...: a drift of the machine hits both alike.
                drafting = turn % 4 in (1, 2)
                used = pair if drafting else plain
                runs[drafting].append(_answer(used, request, share_noise=share_noise))
        except UserFixable:
            continue
        result = _compare(prompt.category, runs[False], runs[True])
        if result is not None:
            results.append(result)
    return results


def summarise(results: Iterable[PromptResult]) -> tuple[dict[str, Summary], Summary | None]:
    """By category, and overall (None without results)."""
    groups: dict[str, list[PromptResult]] = defaultdict(list)
    for result in results:
        groups[result.category].append(result)
    everything = [result for group in groups.values() for result in group]
    by_category = {category: _summary(group) for category, group in groups.items()}
    return by_category, _summary(everything) if everything else None


def _answer(pair: LoadedPair, request: ChatRequest, *, share_noise: bool) -> Finished:
    finished: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            finished.append(event)

    Answer(pair, request, listen, lambda: False, share_noise=share_noise).write()
    return finished[0]


def _compare(
    category: str, plain: Sequence[Finished], drafting: Sequence[Finished]
) -> PromptResult | None:
    speeds = [
        [f.stats.tokens_per_s for f in runs if f.stats.tokens_per_s] for runs in (plain, drafting)
    ]
    if not all(speeds):
        return None
    stats = drafting[0].stats
    return PromptResult(
        category=category,
        plain_tokens_per_s=median(speeds[0]),
        tokens_per_s=median(speeds[1]),
        acceptance_length=stats.acceptance_length,
        accepted_rounds_weight=stats.rounds - stats.plain_rounds,
        exact=len({run.token_ids for run in (*plain, *drafting)}) == 1,
    )


def _summary(results: Sequence[PromptResult]) -> Summary:
    weights = [(r.acceptance_length, r.accepted_rounds_weight) for r in results]
    known = [(length, weight) for length, weight in weights if length is not None]
    rounds = sum(weight for _, weight in known)
    return Summary(
        speedup=median(r.tokens_per_s / r.plain_tokens_per_s for r in results),
        plain_tokens_per_s=median(r.plain_tokens_per_s for r in results),
        tokens_per_s=median(r.tokens_per_s for r in results),
        acceptance_length=(
            sum(length * weight for length, weight in known) / rounds if rounds else None
        ),
        exact=all(r.exact for r in results),
        prompts=len(results),
    )
