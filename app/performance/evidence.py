"""Measured numbers that the findings rest on, put together from model and plan. No Qt.

None, or nothing, wherever something was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from app.performance.model import PerformanceModel
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares, Timeline
from engine.events import DeviceSample, PlanSummary
from engine.machine.speeds import Speeds

_NEWEST = 400
"""Rounds that are looked at: what was measured last counts."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts beside an answer's rounds.

    Attributes:
        speeds: speeds of this machine, where it was measured.
        threads: CPU threads in use.
        cores: CPU cores that they may run on.
        without_draft: tokens per second that were measured of this model without drafting.
    """

    speeds: Speeds | None = None
    threads: int | None = None
    cores: int | None = None
    without_draft: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence(RunFacts):
    """All of it, of one answer.

    Attributes:
        others_cpu: percent of the processor that other programs used meanwhile.
        draft_s, verify_s: seconds of a typical round with a draft, else of one without.
    """

    tally: AnswerTally | None = None
    shares: Shares | None = None
    plan: PlanSummary | None = None
    sample: DeviceSample | None = None
    others_cpu: float | None = None
    context_used: int = 0
    draft_s: float | None = None
    verify_s: float | None = None


def evidence(
    model: PerformanceModel, timeline: Timeline, tally: AnswerTally | None, setting: RunFacts
) -> Evidence:
    """Return what is known about the answer on show; of an earlier one only what its rounds say."""
    own = timeline is model.timeline
    rounds = [done for done in timeline.rounds[-_NEWEST:] if done.index > 0]
    drafted = [done for done in rounds if done.drafted and done.drafting]
    typical = drafted or rounds
    return Evidence(
        *(setting.speeds, setting.threads, setting.cores, setting.without_draft),
        tally=tally,
        shares=timeline.shares,
        plan=model.plan if own else None,
        sample=model.sample if own else None,
        others_cpu=others_on_cpu(model, timeline) if own else None,
        context_used=timeline.rounds[-1].context_used if timeline.rounds else 0,
        draft_s=median(done.drafting_s for done in drafted) if drafted else None,
        verify_s=median(done.verify.seconds for done in typical) if typical else None,
    )


def others_on_cpu(model: PerformanceModel, timeline: Timeline) -> float | None:
    """Percent of the processor that others used while the rounds ran."""
    start, end = timeline.start, timeline.end
    if start is None or end is None:
        return None
    ours, system = (series.mean(start, end) for series in model.processor.series)
    if ours is None or system is None:
        return None
    return max(system - ours, 0.0)
