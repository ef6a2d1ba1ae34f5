"""Speed-ups of the benchmarks hold on machines whose speed changes while they run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from engine.bench.harness import ALL, PLAIN, BenchAnswer, MeasuredStrategy, figures, measure
from engine.bench.prompts import BenchPrompt
from engine.request import ChatRequest, SamplingParams
from engine.session.tally import Tally

PROMPTS = [BenchPrompt("code", "one"), BenchPrompt("code", "two"), BenchPrompt("maths", "three")]


@dataclass(slots=True)
class Machine:
    """Every answer takes it longer than the one before."""

    slowdown: float = 1.0
    log: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DriftingWriter:
    """Writes answers of so many tokens at a pace in seconds, on a machine that slows down."""

    machine: Machine
    name: str
    pace: float
    tokens: int = 10

    def write(self, request: ChatRequest) -> BenchAnswer:
        self.machine.log.append(self.name)
        self.machine.slowdown *= 1.1
        tokens = min(self.tokens, (request.max_tokens or 1) - 1)
        seconds = self.pace * tokens * self.machine.slowdown
        tally = Tally(committed=tokens + 1, first_at=1.0, last_at=1.0 + seconds, rounds=1)
        return BenchAnswer(tally.stats(0.0, None), token_ids=(1, 2), ended=True)


def measured(repeat: int) -> tuple[Machine, dict[str, MeasuredStrategy]]:
    machine = Machine()
    strategies = {
        PLAIN: MeasuredStrategy(DriftingWriter(machine, "p", 1.0)),
        "twice": MeasuredStrategy(DriftingWriter(machine, "a", 0.5)),
        "longer": MeasuredStrategy(DriftingWriter(machine, "b", 0.8, tokens=20)),
    }
    done = measure(strategies, PROMPTS, SamplingParams(), max_tokens=21, repeat=repeat)
    assert done == PROMPTS
    return machine, strategies


def test_plain_answers_stand_before_and_after_all_others() -> None:
    machine, strategies = measured(repeat=2)
    warming_up, turns = "pab", "papbpbpap"
    assert "".join(machine.log) == warming_up + turns * len(PROMPTS)
    assert [len(runs) for runs in strategies[PLAIN].answers] == [5, 5, 5]
    assert [len(runs) for runs in strategies["twice"].answers] == [2, 2, 2]


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_a_machine_that_slows_down_does_not_change_a_speed_up(repeat: int) -> None:
    _, strategies = measured(repeat)
    found = figures(strategies, PROMPTS)
    # Neighbours' seconds are 1/1.1 and 1.1 times those at the time of an answer.
    drift = (1 / 1.1 + 1.1) / 2
    for category in ("code", "maths", ALL):
        rows = found[category]
        assert rows["twice"].speedup == pytest.approx(2 * drift)
        assert rows["twice"].total_speedup == pytest.approx(2 * drift)
        assert rows["longer"].speedup == pytest.approx(1.25 * drift)
        assert rows[PLAIN].speedup == pytest.approx(1.0)
    beside = figures(strategies, PROMPTS, against="twice")
    assert beside[ALL]["twice"].speedup == pytest.approx(1.0)
