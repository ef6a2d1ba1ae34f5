"""`duotail bench round`: what a round costs inside and outside native calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.backend.native.library import library
from engine.bench.rounds import NativeClock, RoundTimes, medians


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[RoundTimes]:
    """Every round that a profile was made of."""
    rounds: list[RoundTimes] = []

    def noting(times: Sequence[RoundTimes]) -> RoundTimes | None:
        rounds.extend(times)
        return medians(times)

    monkeypatch.setattr("engine.bench.rounds.medians", noting)
    return rounds


def test_the_parts_make_the_round(duotail: Duotail, tmp_path: Path, seen: list[RoundTimes]) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Tell me a story."}\n')
    limits = ("--model", FOLDER_TARGET, "--prompts", prompts, "--max-tokens", "64", "--json")
    drafting = duotail("bench", "round", "--mode", "cpu", *limits).json
    assert drafting["drafting_rounds"] > 3
    assert len(seen) == drafting["drafting_rounds"] + drafting["plain_rounds"]
    for times in seen:  # in every round, and no median would prove it: medians do not add up
        assert 0 < times.draft_us + times.verify_us <= times.round_us
        assert 0 < times.python_us < times.round_us
        assert times.native_us + times.python_us == pytest.approx(times.round_us)
    told = drafting["drafting"]
    assert told["native_calls"] >= 2, "the draft's and the target's"
    assert 0 < told["draft_us"] < told["round_us"]
    assert 0 < told["verify_us"] < told["round_us"]
    plain = duotail("bench", "round", "--mode", "plain", *limits).json
    assert plain["drafting"] is None
    assert plain["drafting_rounds"] == 0
    assert plain["plain"]["draft_us"] == 0


def test_a_median_of_each_part() -> None:
    rounds = [
        RoundTimes(10.0, 1.0, 9.0, 7.0, 3.0, 2),
        RoundTimes(12.0, 8.0, 3.0, 2.0, 10.0, 4),
        RoundTimes(11.0, 5.0, 6.0, 10.0, 1.0, 3),
    ]
    assert medians(rounds) == RoundTimes(11.0, 5.0, 6.0, 7.0, 3.0, 3)
    assert medians([]) is None


def test_the_default_prompts_as_a_table(duotail: Duotail) -> None:
    done = duotail("bench", "round", "--max-tokens", "4")
    assert done.code == 0
    assert "python_us" in done.out


def test_a_clock_counts_while_it_runs_and_leaves_nothing_behind() -> None:
    before = library().dt_best_isa
    began = perf_counter()
    with NativeClock() as clock:
        library().dt_best_isa()
        library().dt_current_isa()
        with pytest.raises(TypeError):
            library().dt_pool_free()
    library().dt_best_isa()
    assert clock.calls == 3
    assert 0 < clock.seconds <= perf_counter() - began
    assert library().dt_best_isa is before
