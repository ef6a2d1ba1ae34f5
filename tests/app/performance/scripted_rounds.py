"""Plausible event streams, the same on every run."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from engine.events import (
    AcceleratorSample,
    AnswerStats,
    DeviceSample,
    Event,
    Finished,
    FinishReason,
    Interval,
    PrefillProgress,
    RoundFinished,
)

GIB = 2**30


def round_finished(
    index: int,
    start: float,
    *,
    draft: float = 0.0,
    verify: float = 0.05,
    drafted: int = 0,
    accepted: int = 0,
    request_id: str = "r",
    ahead: float = 0.0,
    text: tuple[int, int] = (0, 0),
) -> RoundFinished:
    """A round that starts at `start`; `ahead` seconds of its drafting ran before that."""
    end = start + max(draft - ahead, 0.0)
    return RoundFinished(
        at=end + verify,
        request_id=request_id,
        index=index,
        drafting=(Interval(start - ahead, start - ahead + draft),) if drafted else (),
        verify=Interval(end, end + verify),
        drafted=drafted,
        accepted=accepted,
        committed=accepted + 1,
        drafted_by_depth=tuple(int(d <= min(accepted, drafted - 1)) for d in range(drafted)),
        accepted_by_depth=tuple(int(d < accepted) for d in range(drafted)),
        context_used=100 + index,
        text_start=text[0],
        text_end=text[1],
    )


def parallel_round(
    index: int,
    since: float,
    chance: random.Random,
    *,
    verify: float = 0.1,
    accepted: int = 3,
    request_id: str = "r",
    text: tuple[int, int] = (0, 0),
) -> RoundFinished:
    """A round after the one that ended at `since`; drafts before and during its verification.

    The draft rests now and then: it is far enough ahead.
    """
    start = since + 0.004 + (0.03 if accepted < 2 else 0.0)
    end = start + verify
    drafting, at = [], since + 0.001
    while at < end - 0.01:
        until = min(at + 0.008 + 0.03 * chance.random(), end)
        drafting.append(Interval(at, until))
        at = until + 0.004 + 0.01 * chance.random()
    seconds = sum(each.seconds for each in drafting)
    drafted = 5
    done = round_finished(
        index, start, verify=verify, drafted=drafted, accepted=accepted, request_id=request_id
    )
    return replace(
        done,
        at=end + 0.001,
        drafting=tuple(drafting),
        verify=Interval(start, end),
        useful_s=seconds * 0.8 * accepted / drafted,
        wasted_s=seconds * 0.9 * (1 - accepted / drafted),
        text_start=text[0],
        text_end=text[1],
    )


def sample(at: float, *, gpu: bool = False) -> DeviceSample:
    """A machine at work."""
    wave = math.sin(at / 3)
    return DeviceSample(
        at=at,
        cpu_percent=72 + 14 * wave,
        system_cpu_percent=80 + 12 * wave,
        memory_bytes=int((3.1 + 0.1 * wave) * GIB),
        memory_total_bytes=int(31.2 * GIB),
        accelerators=(
            AcceleratorSample(
                "cuda:0",
                "NVIDIA GeForce RTX 3060",
                percent=61 + 20 * wave,
                memory_used=int(7.6 * GIB),
                memory_total=12 * GIB,
            ),
        )
        if gpu
        else (),
    )


def answer(
    seconds: float = 50.0,
    *,
    mode: str = "serial",
    gpu: bool = False,
    seed: int = 1,
    start: float = 100.0,
    request_id: str = "r",
) -> Iterator[Event]:
    """Prefill, rounds and device samples of one answer, in order of time."""
    chance = random.Random(seed)
    clock, index, next_sample, written = start + 0.4, 0, start, 0
    yield PrefillProgress(start, request_id, 0, 80, 0)
    while clock < start + seconds:
        plain = index == 0 or mode == "plain" or chance.random() < 0.08
        depth = 0 if plain else 5
        accepted = 0
        while accepted < depth and chance.random() < 0.78 - 0.06 * accepted:
            accepted += 1
        slow = 1 + 0.3 * math.sin(clock / 5)
        text = (written, written + 4 * (accepted + 1))
        verify = (0.07 if plain else 0.1) * slow + chance.random() * 0.02
        if mode == "duo" and not plain:
            done = parallel_round(
                index,
                clock,
                chance,
                verify=verify,
                accepted=accepted,
                request_id=request_id,
                text=text,
            )
        else:
            done = round_finished(
                index,
                clock,
                draft=0.0 if plain else 0.045 * slow + chance.random() * 0.01,
                verify=verify,
                drafted=depth,
                accepted=accepted,
                request_id=request_id,
                text=text,
            )
        written = done.text_end
        while next_sample < done.at:
            yield sample(next_sample, gpu=gpu)
            next_sample += 0.5
        yield done
        clock = done.at + (0.0 if mode == "duo" else 0.004 + chance.random() * 0.004)
        index += 1


def finished(at: float, request_id: str = "r") -> Finished:
    """The end of an answer, with the engine's own account."""
    stats = AnswerStats(
        prompt_tokens=80,
        reused_tokens=0,
        committed=412,
        rounds=133,
        plain_rounds=11,
        drafted=610,
        accepted=279,
        drafted_by_depth=(122, 90, 60, 40, 20),
        accepted_by_depth=(100, 80, 50, 30, 15),
        acceptance_length=3.29,
        ttft_s=0.42,
        tokens_per_s=14.25,
        seconds=29.3,
    )
    return Finished(at, request_id, FinishReason.STOP, "text", (1, 2), stats)
