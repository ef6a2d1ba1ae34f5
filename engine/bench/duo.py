"""Drafting on the CPU while the target verifies on an accelerator, beside all that it replaces.

The target alone, with the same draft in turns, on the CPU and on the accelerator, and in parallel:
same prompts, same run, texts compared. On a simulated accelerator the target can be declared as
slow as one wishes against the draft, so that the whole range of c = T_draft / T_verify can be
measured on one machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.simulated.device import SimulatedDevice
from engine.bench.answers import Speed
from engine.bench.declaring import declare_verify
from engine.bench.duo_answers import DuoAnswers, DuoWay, DuoWishes
from engine.bench.first_token import FirstTokenBench, FirstTokens
from engine.bench.forward import time_forwards
from engine.bench.lane_shares import LaneShares
from engine.bench.lanes.ours import simulate_trace
from engine.bench.lanes.script import MISSED, Times
from engine.plan.plan import BUCKETS, USUAL_ACCEPTANCE, USUAL_LEVELS, Expectation, Plan

_FEW = 24
"""Tokens of an answer that shows what a step takes beside a busy target."""

_IN_TIME = 0.1
"""c at which a draft is in time even if its steps take some times as long as by itself."""

_REPEATS = 20
"""Times that a trace is played: then its end weighs little."""


@dataclass(frozen=True, slots=True)
class DuoModels:
    """Both models where they compute in this mode.

    Attributes:
        there: the draft once more, beside the target; None where there is no room.
        prompts: token ids.
        stop_ids: tokens that end an answer.
    """

    plan: Plan
    devices: Mapping[str, Device]
    target: Decoder
    draft: Decoder
    there: Decoder | None
    prompts: Sequence[Sequence[int]]
    stop_ids: Collection[int] = ()

    @property
    def simulated(self) -> SimulatedDevice | None:
        """The accelerator, where it is simulated."""
        found = (each for each in self.devices.values() if isinstance(each, SimulatedDevice))
        return next(found, None)


@dataclass(frozen=True, slots=True)
class DuoSpeed:
    """What was measured with one pair on one accelerator. Times in seconds.

    Attributes:
        wished: c as it was to be declared; None: the accelerator is as it is.
        ways: speeds.
        shares: what the lanes did.
        verify: of the target by its rows, in rounds; medians.
        step: of the draft lane by its nodes.
        simulated: speed-up that the simulator of lanes has of the same acceptances and times; None
            where nothing was scripted.
    """

    wished: float | None
    ways: dict[DuoWay, Speed]
    shares: dict[DuoWay, LaneShares]
    verify: dict[int, float]
    step: dict[int, float]
    exact: bool
    simulated: float | None = None

    @property
    def c(self) -> float | None:
        """T_draft / T_verify, of as few tokens as they had; None while one of them is not known."""
        step, verify = min(self.step, default=0), min(self.verify, default=0)
        return self.step[step] / self.verify[verify] if step and verify else None

    @property
    def against_simulated(self) -> float | None:
        """The measured speed-up as a share of the simulated one."""
        return self.ways[DuoWay.PARALLEL].speedup / self.simulated if self.simulated else None


def measure_duo(
    lanes: DuoModels, wishes: DuoWishes, wished: Sequence[float | None] = (None,)
) -> Iterator[DuoSpeed]:
    """One after the other for every wished c.

    Args:
        lanes: both models.
        wishes: how many answers, how long.
        wished: T_draft / T_verify to declare; None: as it is. What is declared is right for the
            target alone, so that the draft is left on the CPU then.

    Raises:
        ValueError: something is to be declared where the accelerator is real.
    """
    expected = lanes.plan.expected
    for c in wished:
        if c is not None:
            wishes = replace(wishes, ways=(DuoWay.PLAIN, DuoWay.TURNS, DuoWay.PARALLEL))
            expected = _declare(lanes, wishes, c)
        answers = _answers(lanes, wishes, expected)
        for run in range(wishes.runs):
            answers.run(run)
        yield _result(answers, c)
        del answers  # whose sequences would be second ones


def measure_first_token(lanes: DuoModels, prompt: Sequence[int], runs: int) -> FirstTokens:
    """How long the first token takes behind a prompt, in every way."""
    beside = lanes.simulated is None  # as answers have it, see Parallel.reads_beside
    bench = FirstTokenBench(lanes.target, lanes.draft, lanes.there, prompt, beside=beside)
    return bench.measure(runs)


def _answers(lanes: DuoModels, wishes: DuoWishes, expected: Expectation | None) -> DuoAnswers:
    return DuoAnswers(
        lanes.target, lanes.draft, lanes.there, lanes.prompts, wishes, lanes.stop_ids, expected
    )  # fmt: skip


def _declare(lanes: DuoModels, wishes: DuoWishes, c: float) -> Expectation:
    """So slow a target that a step of the draft takes this share of its verification.

    How long steps take while both lanes work is only known once they do, so they do so first: at a
    target so slow that the draft is in time, however much the other lane disturbs it, and then at
    the one wished for. What was declared is what a plan for such an accelerator would expect.
    """
    device = lanes.simulated
    if device is None:
        raise ValueError("only a simulated accelerator can be declared to be slow")
    context = max(map(len, lanes.prompts)) + wishes.tokens // 2
    step = time_forwards(lanes.draft, (1,), context=context).seconds[1]
    few = replace(wishes, ways=(DuoWay.PARALLEL,), tokens=min(wishes.tokens, _FEW))
    for share in (min(c, _IN_TIME), c):
        declare_verify(device, lanes.target, step / share, context)
        answers = _answers(lanes, few, None)
        answers.run(0)
        steps = _medians(answers.heard[DuoWay.PARALLEL].steps)
        step = steps[min(steps)] if steps else step
    declare_verify(device, lanes.target, step / c, context)
    return Expectation(
        verify=(step / c,) * len(BUCKETS),
        levels=tuple(step * usual for usual in USUAL_LEVELS),
        acceptance=USUAL_ACCEPTANCE if wishes.acceptance is None else wishes.acceptance,
    )


def _result(answers: DuoAnswers, wished: float | None) -> DuoSpeed:
    plain, duo = answers.heard[DuoWay.PLAIN], answers.heard[DuoWay.PARALLEL]
    rounds = [*plain.speeds.rounds, *duo.speeds.rounds]
    shares = {way: heard.shares for way, heard in answers.heard.items() if way is not DuoWay.PLAIN}
    return DuoSpeed(
        wished=wished,
        ways={way: answers.speed(way) for way in answers.heard},
        shares={way: found for way, found in shares.items() if found is not None},
        verify=_medians((done.drafted + 1, done.verify.seconds) for done in rounds),
        step=_medians(duo.steps),
        exact=answers.exact,
        simulated=_simulated(answers),
    )


def _simulated(answers: DuoAnswers) -> float | None:
    """What the simulator of lanes makes of the same acceptances, and of what both lanes took.

    The scripts of all runs are played one behind the other, some times over, as one long answer.
    """
    plain, duo = answers.heard[DuoWay.PLAIN], answers.heard[DuoWay.PARALLEL]
    rounds = [*plain.speeds.rounds, *duo.speeds.rounds]
    # Means: what is late now and then delays both lanes, too.
    verify = _by_size(((done.drafted + 1, done.verify.seconds) for done in rounds), fmean)
    step = _by_size(duo.steps, fmean)
    if not answers.ranks or not step:
        return None
    trace = [MISSED if rank is None else rank for rank in answers.ranks]
    played = simulate_trace(
        _REPEATS * trace, answers.candidates, Times(_curve(verify), _curve(step))
    )
    return played.rate * verify[1]


def _curve(known: Mapping[int, float]) -> Callable[[int], float]:
    """Between sizes that were measured a straight line, beyond them the nearest."""
    sizes, seconds = [*known], [*known.values()]
    return lambda size: float(np.interp(size, sizes, seconds))


def _medians(measured: Iterable[tuple[int, float]]) -> dict[int, float]:
    return _by_size(measured, median)


def _by_size(
    measured: Iterable[tuple[int, float]], middle: Callable[[Sequence[float]], float]
) -> dict[int, float]:
    by_size: dict[int, list[float]] = defaultdict(list)
    for size, seconds in measured:
        by_size[size].append(seconds)
    return {size: middle(spent) for size, spent in sorted(by_size.items())}
