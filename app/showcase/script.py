"""Events of an answer by a scripted engine, without a model. Tests use it as well.

Its numbers are invented; only pictures and tests show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.commands import Mode
from engine.events import (
    AcceleratorSample,
    AnswerStats,
    DeviceSample,
    Interval,
    Origin,
    PlanSummary,
    RoundFinished,
    TextDelta,
    TokenSpan,
)
from engine.machine.facts import Host, Machine

PLAN = PlanSummary(
    mode=Mode.CPU,
    target_device="CPU",
    draft_device="CPU",
    draft="SmolLM2 135M draft + lookup",
    context=8192,
    signature="bf16/f32/cpu",
    reasons=("No accelerator was found, so target and draft share the CPU.",),
    target_bytes=15_000_000,
    kv_bytes=8_000_000,
)
MACHINE = Machine(Host(cores=8, memory_total=16 * 2**30, memory_available=11 * 2**30))
MODEL_NAME = "SmolLM2 135M Instruct"
Clock = Callable[[], float]

FIRST_ID = 1000
"""Token ids of a scripted answer count on from here."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a scripted answer: tokens a round (a token is a word), seconds a round."""

    tokens: int = 4
    seconds: float = 0.09
    drafted: int = 4
    prompt_tokens: int = 24


def sample(at: float, percent: float) -> DeviceSample:
    """The machine at one moment."""
    return DeviceSample(at, percent, percent + 6, 412_000_000, 16 * 2**30)


def both_busy(at: float) -> DeviceSample:
    """The machine while the CPU drafts and a simulated accelerator verifies."""
    card = AcceleratorSample(
        "simulated:0",
        "Simulated GPU",
        percent=86.0,
        memory_used=96_000_000,
        memory_ours=96_000_000,
        memory_total=3 * 2**30,
        simulated=True,
    )
    return replace(sample(at, 61.0), accelerators=(card,))


def words(text: str) -> list[str]:
    """`text` in pieces that join to itself."""
    pieces = text.split(" ")
    return [piece + " " for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def rounds(
    request_id: str, text: str, clock: Clock, pace: Pace | None = None, told: int = 0
) -> Iterator[tuple[TextDelta, RoundFinished]]:
    """The rounds that write `text`; `told` UTF-16 units of the answer came before it.

    `clock` is asked once a round for the time of its end.
    """
    pace = pace or Pace()
    pieces = words(text)
    offset = told
    for first in range(0, len(pieces), pace.tokens):
        piece = pieces[first : first + pace.tokens]
        at = clock()
        spans = tuple(spans_of(piece, FIRST_ID + first, offset))
        delta = TextDelta(at, request_id, "".join(piece), spans)
        start, offset = offset, spans[-1].end
        yield delta, _round(request_id, first, at, len(piece), (start, offset), pace)


def stats(tokens: int, seconds: float = 5.07, pace: Pace | None = None) -> AnswerStats:
    """Statistics for an answer of `tokens` tokens."""
    pace = pace or Pace()
    count = -(-tokens // pace.tokens)
    offered = (count, count * 3 // 4, count // 2, count // 3)
    taken = (count * 3 // 4, count // 2, count // 3, count // 6)
    return AnswerStats(
        prompt_tokens=pace.prompt_tokens,
        reused_tokens=pace.prompt_tokens // 3,
        committed=tokens,
        rounds=count,
        plain_rounds=0,
        drafted=count * pace.drafted,
        accepted=sum(taken),
        drafted_by_depth=offered,
        accepted_by_depth=taken,
        acceptance_length=2.61 if tokens else None,
        ttft_s=0.118 if tokens else None,
        tokens_per_s=41.8 if tokens else None,
        seconds=seconds,
    )


def spans_of(piece: Sequence[str], first_id: int, offset: int) -> Iterator[TokenSpan]:
    """A round's tokens: drafted ones, and one of the target's own at the end."""
    for index, word in enumerate(piece):
        end = offset + len(word.encode("utf-16-le")) // 2
        origin = Origin.DRAFTED if index < len(piece) - 1 else Origin.TARGET
        yield TokenSpan(first_id + index, offset, end, origin)
        offset = end


def _round(
    request_id: str, first: int, at: float, committed: int, text: tuple[int, int], pace: Pace
) -> RoundFinished:
    accepted = committed - 1
    return RoundFinished(
        at=at,
        request_id=request_id,
        index=first // pace.tokens,
        drafting=(Interval(at - pace.seconds * 0.94, at - pace.seconds * 0.58),),
        verify=Interval(at - pace.seconds * 0.57, at - pace.seconds * 0.02),
        drafted=pace.drafted,
        accepted=accepted,
        committed=committed,
        drafted_by_depth=(1,) * min(accepted + 1, pace.drafted),
        accepted_by_depth=(1,) * accepted,
        context_used=pace.prompt_tokens + first,
        rejected="perhaps another" if accepted < pace.drafted else "",
        text_start=text[0],
        text_end=text[1],
        useful_s=pace.seconds * 0.36 if accepted else 0.0,
        wasted_s=0.0 if accepted else pace.seconds * 0.36,
    )
