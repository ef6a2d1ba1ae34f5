"""What the planner predicts, and what runs done afterwards say: speed and memory.

Every run has a process of its own, so that what the system counts is the models' memory alone.
The cases take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from statistics import median

from engine.bench.answers import Wishes
from engine.bench.drafts import RandomPair
from engine.bench.memory_use import MemoryUse
from engine.bench.placement import Known, Placing, plan_models
from engine.bench.shape_speed import ShapeSpeed, measure_shape
from engine.machine.facts import Machine
from engine.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Case:
    """A shape in a format, and where it should run."""

    shape: str
    wanted: str
    placing: Placing


@dataclass(frozen=True, slots=True)
class PredictedSpeed:
    """A predicted number of tokens per second and the median of what was measured.

    `depth`: of drafted chains, as planned; 0: plain.
    """

    depth: int
    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """How far the prediction is from what was measured, as a share of that."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """One case: its plan, speeds plain and drafting, memory by device.

    `fixed`: tokens per second at the planned depth, in every round; the controller's choice is
    what is compared.
    """

    case: Case
    plan: Plan
    speeds: tuple[PredictedSpeed, ...]
    memory: dict[str, MemoryUse]
    fixed: float | None


def planned(cases: Sequence[Case], known: Known, wishes: Wishes) -> list[Plan]:
    """What is predicted, before anything runs.

    Raises:
        UserFixable: a case cannot be planned.
    """
    return [plan_models(known, _pair(case), case.placing, wishes) for case in cases]


def compare(
    cases: Sequence[Case],
    plans: Sequence[Plan],
    machine: Machine,
    wishes: Wishes,
    *,
    rounds: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[CaseOutcome]:
    """Run every case in its turn, `rounds` times, and give what came of each.

    Raises:
        UserFixable: a case cannot be run.
    """
    runs: list[list[ShapeSpeed]] = [[] for _ in cases]
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as children:
        for turn in range(rounds):
            for index, (case, plan, found) in enumerate(zip(cases, plans, runs, strict=True)):
                progress(turn * len(cases) + index, rounds * len(cases))
                ask = (_pair(case), _wishes(wishes, plan), plan, machine)
                found.append(children.submit(measure_shape, *ask).result())
    progress(rounds * len(cases), rounds * len(cases))
    for case, plan, found in zip(cases, plans, runs, strict=True):
        yield _outcome(case, plan, found)


def median_error(outcomes: Sequence[CaseOutcome]) -> float | None:
    """Of all predicted speeds, in either direction."""
    errors = [abs(speed.off) for outcome in outcomes for speed in outcome.speeds]
    return median(errors) if errors else None


def _pair(case: Case) -> RandomPair:
    return RandomPair.published(case.shape, case.wanted)


def _wishes(wishes: Wishes, plan: Plan) -> Wishes:
    """Only what is compared."""
    return replace(wishes, depths=(max(plan.depth, 1),), rows=(1,))


def _outcome(case: Case, plan: Plan, runs: Sequence[ShapeSpeed]) -> CaseOutcome:
    plain = median(run.plain_tokens_per_s for run in runs)
    speeds = []
    if plan.plain_tokens_per_s:
        speeds.append(PredictedSpeed(0, plan.plain_tokens_per_s, plain))
    drafted = [run.auto.tokens_per_s for run in runs if run.auto]
    if plan.tokens_per_s and drafted:
        speeds.append(PredictedSpeed(plan.depth, plan.tokens_per_s, median(drafted)))
    fixed = [speed.tokens_per_s for run in runs for speed in run.by_depth.values()]
    return CaseOutcome(case, plan, tuple(speeds), runs[-1].memory, median(fixed) if fixed else None)
