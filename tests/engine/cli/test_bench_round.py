"""`duotail bench round`: what a round costs inside and outside native calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Duotail

from engine.backend.native.clock import NativeClock
from engine.backend.native.library import library


def test_the_parts_make_the_round(duotail: Duotail, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Tell me a story."}\n')
    limits = ("--prompts", prompts, "--max-tokens", "24", "--json")
    drafting = duotail("bench", "round", "--mode", "cpu", *limits).json
    assert drafting["drafting_rounds"] > 3
    times = drafting["drafting"]
    assert times["native_calls"] >= 2, "the draft's and the target's"
    assert 0 < times["draft_us"] + times["verify_us"] <= times["round_us"]
    assert 0 < times["python_us"] < times["round_us"]
    plain = duotail("bench", "round", "--mode", "plain", *limits).json
    assert plain["drafting"] is None
    assert plain["drafting_rounds"] == 0
    assert plain["plain"]["draft_us"] == 0


def test_the_default_prompts_as_a_table(duotail: Duotail) -> None:
    done = duotail("bench", "round", "--max-tokens", "4")
    assert done.code == 0
    assert "python_us" in done.out


def test_a_clock_counts_while_it_runs_and_leaves_nothing_behind() -> None:
    before = library().dt_best_isa
    with NativeClock() as clock:
        library().dt_best_isa()
        library().dt_current_isa()
        with pytest.raises(TypeError):
            library().dt_pool_free()
    library().dt_best_isa()
    assert clock.calls == 3
    assert 0 < clock.seconds < 1
    assert library().dt_best_isa is before
