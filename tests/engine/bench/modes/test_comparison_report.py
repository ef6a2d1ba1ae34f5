"""Who wins, and how a comparison is told: as a text to share, and as plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.harness import acceptance_length
from engine.bench.modes.measurement import MeasuredMode, noisy, winner
from engine.bench.modes.report import (
    ComparisonReport,
    ModeRow,
    command_line,
    from_table,
    markdown,
    report,
    rows_of,
    spread,
    to_table,
)
from engine.commands import ALL_LAYERS, Compare, DraftChoice, KvType, Load, Mode, WeightFormat
from engine.events import AnswerStats, Compared, ModeRun, PlanSummary
from engine.machine.facts import Accelerator, Host, Machine
from engine.machine.memory import DeviceMemory

GIB = 1 << 30
HERE = Machine(
    Host(8, 32 * GIB, 20 * GIB, "Some Processor"),
    (Accelerator("cuda:0", "Some Card", memory_total=8 * GIB, memory_free=7 * GIB),),
)
WHEN = datetime.fromisoformat("2026-11-22T18:30:00")
LOAD = Load(Path("/home/jane.doe/models/Big Model.Q4_K_M.gguf"))


def plan(mode: Mode, vram: int = 0) -> PlanSummary:
    memory = (DeviceMemory("cpu", GIB, target=5), DeviceMemory("cuda:0", GIB, target=vram))
    return PlanSummary(
        mode, "Some Card", None, "Small Model", 4096, "cuda:q4/kv-f16", (), memory=memory
    )


def run(mode: Mode, *speeds: float | None) -> ModeRun:
    known = sorted(speed for speed in speeds if speed is not None)
    return ModeRun(
        mode,
        plan(mode if mode is not Mode.AUTO else Mode.DOVETAIL, 3 * GIB),
        answers=len(known),
        tokens_per_s=known[len(known) // 2] if known else None,
        lowest=known[0] if known else None,
        highest=known[-1] if known else None,
        ttft_s=0.25,
        acceptance_length=2.5,
        speeds=speeds,
    )


RUNS = (
    run(Mode.AUTO, 20, 21, 22, 23),
    ModeRun(Mode.DUO, None, refusal="There is no room."),
    ModeRun(Mode.DOVETAIL, plan(Mode.DOVETAIL), same_as=Mode.AUTO),
    run(Mode.CPU, None, None, None, None),
    run(Mode.PLAIN, 10, 11, 10, 12),
)


def made(runs: tuple[ModeRun, ...] = RUNS, machine: Machine = HERE) -> ComparisonReport:
    compared = Compared(0.0, LOAD.model, runs, complete=True, winner=winner(runs))
    return report(compared, LOAD, Compare(), "Big Model", machine, "1.2.3", WHEN)


# -- who wins --------------------------------------------------------------------------------


def test_nothing_measured_has_no_winner() -> None:
    assert winner(()) is None
    assert winner((run(Mode.AUTO, None), ModeRun(Mode.CPU, None, refusal="No."))) is None


def test_a_mode_that_is_clearly_faster_wins() -> None:
    assert winner((run(Mode.AUTO, 10, 10, 10, 10), run(Mode.PLAIN, 12, 11, 12, 10))) is Mode.PLAIN


def test_within_noise_the_automatic_choice_stays() -> None:
    close = (run(Mode.AUTO, 10, 10, 10, 10), run(Mode.PLAIN, 10.2, 10.2, 10.2, 10.2))
    assert winner(close) is Mode.AUTO
    mixed = (run(Mode.AUTO, 10, 10, 10, 10), run(Mode.PLAIN, 30, 30, 9, 9.9))
    assert winner(mixed) is Mode.AUTO, "half of the answers are no clear case"
    assert not noisy(close)
    assert noisy((run(Mode.AUTO, 10, 10, 10, 40), run(Mode.PLAIN, 30, 30, 9, 9.9)))


def test_what_is_too_noisy_names_no_best_mode() -> None:
    told = markdown(replace(made(), noisy=True))
    assert "too noisy to tell" in told
    assert "**auto" not in told


def test_where_the_automatic_choice_failed_the_fastest_wins() -> None:
    failed = ModeRun(Mode.AUTO, None, refusal="No.")
    assert winner((failed, run(Mode.CPU, 5, 5), run(Mode.PLAIN, 6, 6))) is Mode.PLAIN


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=16), st.floats(0.1, 1.02))
def test_what_is_not_faster_never_wins(speeds: list[float], share: float) -> None:
    automatic = run(Mode.AUTO, *speeds)
    other = run(Mode.DUO, *(share * speed for speed in speeds))
    assert winner((automatic, other)) is Mode.AUTO


def answer(
    committed: int, speed: float, length: float | None = None, rounds: int = 0
) -> AnswerStats:
    return AnswerStats(5, 0, committed, rounds, 0, 0, 0, (), (), length, 0.1, speed, 1.0)


def test_answers_that_end_at_once_tell_no_speed() -> None:
    measured = MeasuredMode(Mode.PLAIN, plan(Mode.PLAIN), [answer(3, 900), answer(20, 10)])
    assert measured.run.speeds == (None, 10)
    assert measured.run.answers == 1
    assert measured.run.tokens_per_s == 10


def test_acceptance_is_weighed_by_rounds() -> None:
    assert acceptance_length([answer(9, 1, 1.0, 3), answer(9, 1, 4.0, 1)]) == pytest.approx(1.75)
    assert acceptance_length([answer(9, 1)]) is None


# -- told ------------------------------------------------------------------------------------


def test_every_number_of_a_mode_is_in_the_text() -> None:
    text = markdown(made())
    assert "Big Model" in text
    assert "Some Processor, 8 cores, 32" in text
    assert "Some Card" in text
    assert "cuda:q4/kv-f16" in text
    assert "Duotail 1.2.3, measured 2026-11-22" in text
    row = next(line for line in text.splitlines() if "auto (dovetail)" in line)
    assert "**auto (dovetail)**" in row, "the winner"
    for value in ("22.0", "20.0 - 23.0", "2.00x", "250", "2.50", "3.0"):
        assert value in row
    assert "duo: There is no room." in text
    assert "dovetail: the same as auto." in text
    assert "cpu: the answers were too short" in text


def test_the_text_names_nobody() -> None:
    told = markdown(made()) + json.dumps(to_table(made()))
    assert "jane" not in told
    assert "/home" not in told
    assert '--model "Big Model.Q4_K_M.gguf"' in markdown(made())


def test_a_simulated_accelerator_is_named_as_such() -> None:
    pretended = replace(HERE.accelerators[0], name="Simulated GPU", simulated=True)
    text = markdown(made(machine=replace(HERE, accelerators=(pretended,))))
    assert "SIMULATED" in text
    assert "SIMULATED" not in markdown(made())


def test_an_unfinished_one_says_so() -> None:
    assert "not complete" in markdown(replace(made(), complete=False))
    assert "not complete" not in markdown(made())


def test_the_command_measures_the_same() -> None:
    load = Load(
        Path("/a/b"), DraftChoice.LOOKUP, Mode.DUO, 2048, WeightFormat.Q4, KvType.Q8,
        vram=3 * GIB // 2, layers_on_gpu=ALL_LAYERS, simulate_gpu=2 * GIB,
    )  # fmt: skip
    assert command_line(load, Compare(passes=3, tokens=10)) == (
        "duotail bench modes --model b --draft lookup --mode duo --format q4_0 --kv q8 "
        "--context 2048 --vram 1.5 --layers-on-gpu all --simulate-gpu 2 --passes 3 --tokens 10"
    )
    here = Load(Path("/a/b"), Path("/c/d e"), device="webgpu:0")
    assert command_line(here, Compare()) == (
        'duotail bench modes --model b --draft "d e" --device webgpu:0'
    )


def test_what_was_not_measured_has_no_spread() -> None:
    first, *_, none, _ = rows_of(RUNS)
    assert spread(first) == "20.0 - 23.0"
    assert len(spread(none)) == 1


# -- kept ------------------------------------------------------------------------------------


def test_what_is_kept_is_read_again() -> None:
    table = json.loads(json.dumps(to_table(made())))
    assert from_table(table) == made()


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 3},
        {"rows": [{"mode": "warp"}]},
        {"rows": [{"mode": "cpu", "tokens_per_s": "fast"}]},
        {"hardware": None},
        {"at": "yesterday"},
        {"winner": "nobody"},
        {"surprise": 1},
    ],
)
def test_anything_else_is_refused(wrong: dict[str, object]) -> None:
    table = json.loads(json.dumps(to_table(made())))
    for broken in ({**table, **wrong}, wrong, [table], None):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
            from_table(broken)


def test_the_target_alone_is_one() -> None:
    rows = {row.mode: row for row in made().rows}
    assert rows[Mode.PLAIN].relative == 1
    assert rows[Mode.AUTO].relative == pytest.approx(2)
    without = made((run(Mode.AUTO, 1, 2),))
    assert without.plain is None
    assert without.rows[0].relative is None
    best = made().best
    assert isinstance(best, ModeRow)
    assert best.mode is Mode.AUTO
