"""The verdict on an answer's speed: measured under the same circumstances, once, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import scripted_rounds as scripted
from desk import Desk

from app.performance.gain import gain_of
from app.performance.panel import PerformancePanel
from app.performance.tally import AnswerTally
from app.performance.verdict import FEWEST, AnswerPace, Outcome, SpeedRange, SpeedVerdict
from app.showcase.script import stats
from engine.commands import Generate
from engine.events import CalibrationProgress, Finished, FinishReason, RoundFinished


def drafted(count: int, each_s: float = 0.1, *, request_id: str = "r") -> Iterator[RoundFinished]:
    """Rounds of two tokens each."""
    for index in range(count):
        start = index * each_s
        yield scripted.round_finished(
            index,
            start,
            draft=0.2 * each_s,
            verify=0.8 * each_s,
            drafted=2,
            accepted=1,
            request_id=request_id,
        )


def plain(count: int, each_s: float, *, request_id: str = "r") -> Iterator[RoundFinished]:
    for index in range(count):
        yield scripted.round_finished(index, index * each_s, verify=each_s, request_id=request_id)


def pace_of(rounds: Iterable[RoundFinished]) -> AnswerPace:
    pace = AnswerPace()
    for done in rounds:
        pace.add(done)
    return pace


def test_a_draft_is_never_faster_than_the_tokens_of_a_verification() -> None:
    verdict = SpeedVerdict(SpeedRange.around(40, 0), SpeedRange.around(10, 0), most=1.6)
    assert verdict.ratio == 1.6


@pytest.mark.parametrize(
    ("speed", "without", "outcome"),
    [
        (SpeedRange(19, 20, 21), SpeedRange(9, 10, 11), Outcome.FASTER),
        (SpeedRange(9, 20, 31), SpeedRange(9, 10, 11), Outcome.ALIKE),
        (SpeedRange(7, 8, 9.1), SpeedRange(9, 10, 11), Outcome.ALIKE),
        (SpeedRange(7, 8, 8.5), SpeedRange(9, 10, 11), Outcome.SLOWER),
        (SpeedRange(10.2, 10.3, 10.4), SpeedRange(9.9, 10, 10.1), Outcome.ALIKE),
        (SpeedRange(19, 20, 21), None, Outcome.UNKNOWN),
    ],
)
def test_ranges_that_overlap_are_about_as_fast(
    speed: SpeedRange, without: SpeedRange | None, outcome: Outcome
) -> None:
    assert SpeedVerdict(speed, without).outcome is outcome


def test_a_verdict_is_read_as_it_was_kept() -> None:
    verdict = SpeedVerdict(SpeedRange(1, 2, 3), SpeedRange(1, 1, 2), 1.5, 71.0)
    assert SpeedVerdict.unpacked(verdict.packed) == verdict
    assert SpeedVerdict.unpacked(SpeedVerdict(SpeedRange(1, 2, 3)).packed) == SpeedVerdict(
        SpeedRange(1, 2, 3)
    )
    for damaged in ("", "{}", "[]", '{"speed": 3}'):
        assert SpeedVerdict.unpacked(damaged) is None


def test_steady_rounds_have_a_narrow_range_and_restless_ones_a_wide_one() -> None:
    steady = pace_of(drafted(60)).speed
    assert steady is not None
    assert steady.speed == pytest.approx(20.0)
    assert steady.high - steady.low < 0.05 * steady.speed
    rounds = list(drafted(60))
    shift = 0.0
    restless = []
    for done in rounds:
        shift += 0.5 if done.index % 7 == 3 else 0.0
        restless.append(replace(done, at=done.at + shift))
    wide = pace_of(iter(restless)).speed
    assert wide is not None
    assert wide.high - wide.low > 0.3 * wide.speed


def test_nothing_is_said_of_a_short_answer() -> None:
    assert pace_of(drafted(FEWEST // 2 - 1)).speed is None
    assert pace_of(plain(11, 0.1)).plain is None
    tally = AnswerTally("r")
    tally.finish(replace(stats(FEWEST - 1), tokens_per_s=40.0))
    verdict = SpeedVerdict(SpeedRange.around(40, 0), SpeedRange.around(10, 0))
    assert gain_of(tally, None, verdict, None).bars == ()


def test_plain_rounds_tell_the_speed_without_a_draft() -> None:
    """From round to round; a round after a drafted one, and a gap, count for what they are."""
    rounds = [scripted.round_finished(index, 0.1 * index, verify=0.08) for index in range(14)]
    found = pace_of(iter(rounds)).plain
    assert found is not None
    assert found.speed == pytest.approx(10.0)
    assert pace_of(iter(rounds[:12])).plain is None
    assert pace_of(replace(done, drafted=4) for done in rounds).plain is None
    assert pace_of(iter(rounds[::2])).plain is None, "they are no neighbours"


def test_other_programs_on_the_cpu_are_the_first_thing_said() -> None:
    tally = AnswerTally("r")
    tally.finish(replace(stats(100), tokens_per_s=40.0))
    calm = SpeedVerdict(SpeedRange.around(40, 0), SpeedRange.around(50, 0), None, 5.0)
    busy, held = replace(calm, others_cpu=31.0), replace(calm, others_cpu=71.0)
    assert gain_of(tally, None, calm, None).why.startswith("Drafting costs")
    for verdict, said in ((busy, "Other programs used 31"), (held, "Other programs used 71")):
        assert gain_of(tally, None, verdict, None).counts.startswith(said)
    assert gain_of(tally, None, busy, None).figure.startswith("0.80x")
    assert gain_of(tally, None, held, None).figure == "40.0 tokens/s", "it says nothing"


# -- in the window -----------------------------------------------------------------------------


def ask(desk: Desk, text: str = "Tell me of words.") -> str:
    """Ask; the answer's id. The engine does not answer by itself."""
    desk.session.send(text)
    live = desk.session.live
    assert live is not None
    return live.request_id


@pytest.fixture
def quiet(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A window whose answers the test tells."""
    desk.ready()
    engine = desk.assembly.bridge._engine
    usual = engine.submit  # type: ignore[union-attr]

    def submit(command: object) -> None:
        if not isinstance(command, Generate):
            usual(command)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "submit", submit)
    return desk


def finished(request_id: str, *, drafting: bool = True) -> Finished:
    told = replace(stats(80), tokens_per_s=20.0, drafted=160 if drafting else 0)
    return Finished(9.0, request_id, FinishReason.STOP, "words", tuple(range(80)), told, 0, "")


def answer(desk: Desk, text: str = "Tell me of words.") -> str:
    request_id = ask(desk, text)
    desk.tell(*drafted(40, request_id=request_id), finished(request_id))
    return request_id


def measure(desk: Desk, each_s: float) -> None:
    """The speed without the draft is measured after an answer."""
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    without = panel.board._without
    assert without is not None
    without.measure(quietly=True)
    aside = desk.assembly.bridge.status.aside
    assert aside is not None
    desk.tell(*plain(30, each_s, request_id=aside), finished(aside, drafting=False))


def verdict_of(desk: Desk, request_id: str) -> SpeedVerdict | None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    return panel.sight.model.verdicts.get(request_id)


def figure(desk: Desk) -> str:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    panel.sight.model.advance()
    panel.sight.follow()
    panel.board.gain.refresh()
    return panel.board.gain.gain.figure


def test_a_verdict_is_completed_once_and_then_never_changes(quiet: Desk) -> None:
    first = answer(quiet)
    before = verdict_of(quiet, first)
    assert before is not None
    assert before.plain is None
    measure(quiet, 0.1)
    done = verdict_of(quiet, first)
    assert done is not None
    assert done.outcome is Outcome.FASTER
    measure(quiet, 0.01)
    second = answer(quiet, "And more?")
    assert verdict_of(quiet, first) == done
    later = verdict_of(quiet, second)
    assert later is not None
    assert later.outcome is Outcome.SLOWER, "the newest measurement counts for a new answer"


def test_what_is_measured_aside_is_not_to_be_seen(quiet: Desk) -> None:
    answer(quiet)
    panel = quiet.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    without = panel.board._without
    assert without is not None
    before = quiet.assembly.bridge.status
    without.measure(quietly=True)
    status = quiet.assembly.bridge.status
    assert status.aside is not None
    assert replace(status, aside=None) == before
    assert not status.busy


def test_the_verdict_is_there_after_a_restart(quiet: Desk) -> None:
    answer(quiet)
    measure(quiet, 0.1)
    message = quiet.session.messages[-1]
    kept = SpeedVerdict.unpacked(quiet.assembly.store.answers.verdict(message.id))
    assert kept is not None
    assert kept.outcome is Outcome.FASTER


def test_another_model_or_a_longer_context_is_no_comparison(quiet: Desk) -> None:
    answer(quiet)
    measure(quiet, 0.1)
    request_id = ask(quiet, "A long one")
    far = [replace(done, context_used=9000 + done.index) for done in drafted(40)]
    quiet.tell(*(replace(d, request_id=request_id) for d in far), finished(request_id))
    long = verdict_of(quiet, request_id)
    assert long is not None
    assert long.plain is None
    quiet.assembly.models.load(Path("another"))
    quiet.bot.waitUntil(lambda: quiet.assembly.bridge.status.model == Path("another"))
    other = answer(quiet, "Of the other model")
    found = verdict_of(quiet, other)
    assert found is not None
    assert found.plain is None


def test_while_the_pc_is_measured_nothing_is_compared(quiet: Desk) -> None:
    answer(quiet)
    measure(quiet, 0.1)
    assert figure(quiet) == "2.0x faster"
    quiet.tell(CalibrationProgress(9.5, "Reading memory", 0.4))
    assert figure(quiet) == "20.0 tokens/s"


def test_the_load_by_others_is_kept_with_the_answer(quiet: Desk) -> None:
    request_id = ask(quiet)
    ended = finished(request_id)
    ended = replace(ended, stats=replace(ended.stats, others_cpu=71.0))
    quiet.tell(*drafted(40, request_id=request_id), ended)
    verdict = verdict_of(quiet, request_id)
    assert verdict is not None
    assert verdict.others_cpu == 71.0
