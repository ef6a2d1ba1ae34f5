"""Dovetail on a published shape, beside the paper's table.

The target alone on the CPU, and with a draft on an accelerator under several ceilings of its
memory, for drafts that are right as often as told. Every ceiling has a process of its own, which
builds the models once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from statistics import median

from engine.bench.answers import AnswersInTurns, Speed, Wishes
from engine.bench.drafts import RandomPair
from engine.bench.forward import time_forwards
from engine.bench.memory_use import MemoryUse
from engine.bench.placement import Known, Placing, plan_models
from engine.bench.shape_speed import memory_now, single_forwards, watched
from engine.commands import Mode
from engine.machine.facts import Machine
from engine.plan.plan import Plan

GIB = 2**30

PAPER: Mapping[int, float] = {0: 2.12, 3: 5.86, 7: 8.0}
"""Tokens/s of Llama-2-7B on HumanEval by GiB of video memory, 0 of the CPU alone.

Table of arXiv 2412.18934: weights in fp32 on 24 cores, a head of five blocks in fp16 on a card of
8 GiB, greedy.
"""
PAPERS_SHAPE = "llama2-7b"


@dataclass(frozen=True, slots=True)
class DraftedSpeeds:
    """Speeds with drafts of one acceptance: as the controller likes, and at fixed depths."""

    auto: Speed | None
    by_depth: dict[int, Speed]


@dataclass(frozen=True, slots=True)
class CeilingRow:
    """One ceiling of video memory, 0 for the CPU alone. Times in seconds.

    Attributes:
        plain_tokens_per_s: of the target alone, placed as planned.
        drafted: by acceptance.
        verify: of a target forward by its rows.
        level: of a drafted level; None where nothing drafts.
    """

    vram: int
    plan: Plan
    plain_tokens_per_s: float
    drafted: dict[float, DraftedSpeeds]
    verify: dict[int, float]
    level: float | None
    exact: bool
    memory: dict[str, MemoryUse]

    @property
    def share(self) -> float | None:
        """The notes' c: a drafted level, measured in verifications of one row."""
        return None if self.level is None else self.level / self.verify[1]


def plan_rows(
    known: Known, pair: RandomPair, wishes: Wishes, ceilings: Sequence[int]
) -> list[tuple[int, Plan]]:
    """What the planner makes of the CPU alone and of every ceiling.

    Raises:
        Absent: there is no accelerator.
        UserFixable: something does not fit.
    """
    dovetail = replace(wishes, mode=Mode.DOVETAIL)
    rows = [
        (vram, plan_models(known, pair, Placing(Mode.DOVETAIL, vram), dovetail))
        for vram in ceilings
    ]
    alone = plan_models(known, pair, Placing(Mode.PLAIN, 0), replace(wishes, mode=Mode.PLAIN))
    return [(0, alone), *rows]


def measure_rows(
    rows: Sequence[tuple[int, Plan]],
    pair: RandomPair,
    wishes: Wishes,
    acceptances: Sequence[float],
    machine: Machine,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[CeilingRow]:
    """Run what was planned, one after the other.

    Raises:
        UserFixable: a row cannot be run.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as children:
        for index, (vram, plan) in enumerate(rows):
            progress(index, len(rows))
            ask = (vram, plan, pair, wishes, tuple(acceptances), machine, threads)
            yield children.submit(measure_row, *ask).result()
    progress(len(rows), len(rows))


def measure_row(
    vram: int,
    plan: Plan,
    pair: RandomPair,
    wishes: Wishes,
    acceptances: Sequence[float],
    machine: Machine,
    threads: int | None = None,
) -> CeilingRow:
    """One row, in this process.

    Raises:
        UserFixable: it cannot be run.
    """
    placed, watch = watched(plan, machine, pair, threads)
    drafted: dict[float, DraftedSpeeds] = {}
    plain: list[float] = []
    levels: list[float] = []
    exact, memory = True, dict[str, MemoryUse]()
    for acceptance in acceptances if plan.draft is not None else acceptances[:1]:
        own = replace(wishes, mode=plan.mode, acceptance=acceptance)
        answers = AnswersInTurns(placed.target, placed.draft, own, placed.plan.expected)
        for run in range(wishes.runs):
            answers.run(run)
        plain.append(answers.plain_tokens_per_s)
        exact = exact and answers.exact
        if answers.drafting_seconds is not None:
            levels.append(answers.drafting_seconds)
        if plan.draft is not None:
            drafted[acceptance] = DraftedSpeeds(answers.auto, answers.by_depth)
        memory = memory_now(placed, machine, watch)
        del answers  # whose sequences would be a second one
    times = time_forwards(placed.target, wishes.rows, runs=single_forwards(wishes))
    return CeilingRow(
        vram=vram,
        plan=plan,
        plain_tokens_per_s=median(plain),
        drafted=drafted,
        verify=times.seconds,
        level=median(levels) if levels else None,
        exact=exact,
        memory=memory,
    )
