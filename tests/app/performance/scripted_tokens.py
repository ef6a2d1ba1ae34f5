"""Answers with tokens: text and rounds as an engine tells them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scripted_rounds import round_finished

from app.performance.model import PerformanceModel
from engine.events import (
    AnswerStats,
    Event,
    Finished,
    FinishReason,
    Guess,
    Origin,
    PrefillProgress,
    TextDelta,
    TokenSpan,
)


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def told(
    rounds: Sequence[Sequence[str]],
    *,
    rejected: Sequence[str] = (),
    request_id: str = "r",
    guesses: bool = False,
    start: int = 0,
) -> Iterator[Event]:
    """One round for each list of tokens; all but the last of a list were drafted.

    `rejected`: what was refused, by round; `start`: the letters that were there before.
    """
    at, clock = start, 100.0
    yield PrefillProgress(clock, request_id, 10, 10, 0)
    for index, pieces in enumerate(rounds):
        spans, begin = [], at
        for place, piece in enumerate(pieces):
            own = place == len(pieces) - 1
            origin = Origin.TARGET if own else Origin.DRAFTED
            spans.append(TokenSpan(place, at, at + units(piece), origin, 0.5 if guesses else None))
            at += units(piece)
        yield TextDelta(clock, request_id, "".join(pieces), tuple(spans))
        refused = rejected[index] if index < len(rejected) else ""
        done = round_finished(
            index,
            clock,
            draft=0.02,
            drafted=len(pieces) - 1 + bool(refused),
            accepted=len(pieces) - 1,
            request_id=request_id,
            text=(begin, at),
        )
        known = [Guess(piece, 0.75, 0.5, accepted=True) for piece in pieces[:-1]]
        if refused:
            known.append(Guess(refused, 0.6, 0.0001, accepted=False))
        last = spans[-1].start if spans else at
        yield replace(
            done, rejected=refused, rejected_at=last, guesses=tuple(known) if guesses else ()
        )
        clock = done.at + 0.001


def ended(tokens: int, request_id: str = "r") -> Finished:
    stats = AnswerStats(
        prompt_tokens=10,
        reused_tokens=0,
        committed=tokens,
        rounds=3,
        plain_rounds=0,
        drafted=9,
        accepted=6,
        drafted_by_depth=(3, 3, 3),
        accepted_by_depth=(3, 2, 1),
        acceptance_length=3.0,
        ttft_s=0.1,
        tokens_per_s=40.0,
        seconds=1.0,
    )
    return Finished(200.0, request_id, FinishReason.STOP, "", None, stats)


def model_of(events: Iterator[Event]) -> PerformanceModel:
    model = PerformanceModel()
    for event in events:
        model.handle(event)
    return model


def many(tokens: int, seed: int = 4) -> list[list[str]]:
    """Rounds of so many tokens in all."""
    chance, rounds, left = random.Random(seed), [], tokens
    while left > 0:
        count = min(chance.randrange(1, 6), left)
        rounds.append([" " + "letters"[: chance.randrange(2, 8)] for _ in range(count)])
        left -= count
    return rounds
