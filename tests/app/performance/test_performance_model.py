"""Events in, numbers and geometry out; no window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scripted_rounds as scripted
from hypothesis import given
from hypothesis import strategies as st

from app.performance import wording
from app.performance.gain import gain_of
from app.performance.model import USUAL, ModelChange, PerformanceModel
from app.performance.tables import of_draft_time, of_rounds
from app.performance.tally import RateMeter
from app.performance.timeline import Lane, Stretch, Timeline, blocks, overlaps
from app.showcase.script import PLAN, stats
from engine.commands import Connect, ServerKind
from engine.events import (
    AcceleratorSample,
    Connected,
    Event,
    Finished,
    FinishReason,
    Interval,
    Received,
    RoundFinished,
    TextDelta,
    Unloaded,
)


def fed(*events: Event) -> PerformanceModel:
    model = PerformanceModel()
    for event in events:
        model.handle(event)
    return model


def three_rounds() -> list[RoundFinished]:
    """The prefill's token, a drafted round, a plain one, another drafted one."""
    return [
        scripted.round_finished(0, 10.0, verify=0.5),
        scripted.round_finished(1, 10.5, draft=0.2, verify=0.3, drafted=4, accepted=3),
        scripted.round_finished(2, 11.0, verify=0.2),
        scripted.round_finished(3, 11.2, draft=0.3, verify=0.5, drafted=5, accepted=0),
    ]


def test_acceptance_follows_the_definitions() -> None:
    model = PerformanceModel()
    model.asked(9.8)
    for event in three_rounds():
        model.handle(event)
    tally = model.tally
    assert tally is not None
    assert (tally.committed, tally.rounds, tally.plain_rounds) == (1 + 4 + 1 + 1, 3, 1)
    # Prefill's token and the plain round are left out: 4 + 1 tokens in 2 forwards.
    assert tally.acceptance_length == pytest.approx(2.5)
    assert tally.accepted_share == pytest.approx(3 / 9)
    assert tally.tokens_per_s == pytest.approx(6 / (12.0 - 10.5))
    assert tally.ttft_s == pytest.approx(10.5 - 9.8)
    assert tally.by_depth == [(2, 1), (1, 1), (1, 1), (1, 0)] + [(0, 0)] * 1


def test_tokens_cut_off_at_the_end_were_not_accepted() -> None:
    done = scripted.round_finished(1, 0.0, draft=0.1, drafted=4, accepted=4)
    cut = RoundFinished(**{f: getattr(done, f) for f in done.__slots__} | {"committed": 2})
    tally = fed(cut).tally
    assert tally is not None
    assert (tally.committed, tally.accepted) == (2, 2)


def test_plain_answer_has_no_acceptance() -> None:
    tally = fed(*(e for e in scripted.answer(3, mode="plain"))).tally
    assert tally is not None
    assert tally.rounds == tally.plain_rounds > 5
    assert tally.acceptance_length is None
    assert tally.accepted_share is None


def test_the_engines_account_overrules_ours() -> None:
    model = fed(*scripted.answer(5), scripted.finished(106))
    assert model.tally is not None
    shown = {label: value for value, label in wording.numbers(model.tally)}
    assert shown == {
        "tokens/s now": "–",
        "answer average": "14.2",
        "first token": "420\u00a0ms",
        "acceptance length": "3.29",
        "accepted": "46\u202f%",
        "tokens written": "412",
    }
    assert model.tally.by_depth[0] == (122, 100)


def test_a_new_answer_starts_afresh_and_breaks_the_lines() -> None:
    model = fed(*scripted.answer(5), scripted.finished(106))
    for event in scripted.answer(3, start=110, request_id="next"):
        model.handle(event)
    assert model.tally is not None
    assert model.tally.request_id == "next"
    assert all(done.request_id == "next" for done in model.timeline.rounds)
    times, values = model.speed.series[0].since(0)
    at_break = times[values != values]  # NaN
    assert len(at_break) == 1
    assert times[0] < at_break[0] < 110


def test_devices_show_only_what_was_measured() -> None:
    model = fed(scripted.sample(1.0), scripted.sample(1.5))
    assert [lane.title for lane in model.lanes if lane.present] == [
        *("Tokens per second", "Acceptance length", "CPU", "Memory")
    ]
    assert model.handle(scripted.sample(2.0, gpu=True)) == ModelChange.TIME
    gpu, gpu_memory = model.lanes[4:USUAL]
    assert gpu.present
    assert gpu_memory.value == "7.60 of 12.0\u00a0GiB"
    assert len(gpu.series[0].since(0)[0]) == 1
    assert model.now == 2.0


def test_a_simulated_gpu_is_called_so() -> None:
    """Also when a real one was there before it, and none without a name in plans goes first."""
    model = fed(scripted.sample(1.0, gpu=True))
    simulated = AcceleratorSample("simulated:0", "Simulated", 50.0, 1, 1, 2, simulated=True)
    unused = AcceleratorSample("", "GeForce", 3.0)
    model.handle(replace(scripted.sample(2.0), accelerators=(unused, simulated)))
    assert [lane.title for lane in model.lanes[4:USUAL]] == [
        "Simulated GPU",
        "Simulated GPU memory",
    ]
    assert model.lanes[4].series[0].last == 50.0
    model.handle(scripted.sample(3.0, gpu=True))
    assert [lane.title for lane in model.lanes[4:USUAL]] == ["GPU", "GPU memory"]


def test_events_without_news_change_nothing() -> None:
    model = PerformanceModel()
    assert model.handle(TextDelta(1.0, "r", "text", ())) == ModelChange.NOTHING
    assert model.handle(Unloaded(2.0)) == ModelChange.NOTHING
    assert model.tally is None


def test_clearing_forgets_all_but_the_hardware() -> None:
    model = fed(*scripted.answer(5, gpu=True))
    model.clear()
    assert model.tally is None
    assert not model.timeline.rounds
    assert all(len(s.since(0)[0]) == 0 for lane in model.lanes for s in lane.series)
    assert model.lanes[4].present


def test_what_was_fed_is_taken_in_by_and_by() -> None:
    model, at_once = PerformanceModel(), PerformanceModel()
    events = [*scripted.answer(60, mode="duo"), scripted.finished(170)]
    for event in events:
        at_once.handle(event)
    assert not model.feed([TextDelta(1.0, "r", "text", ())])
    assert model.feed(events)
    assert model.tally is None
    steps = 0
    while model.behind:
        assert model.advance(0.0)
        steps += 1
    assert steps > 3
    assert model.tally == at_once.tally
    assert model.timeline == at_once.timeline


def test_thousands_of_rounds_a_second_leave_a_sample_for_each_tenth() -> None:
    model = PerformanceModel()
    for index in range(5000):
        model.handle(scripted.round_finished(index, index * 0.0004, verify=0.0004))
    times, _ = model.speed.series[0].since(0)
    assert 18 <= len(times) <= 21
    assert model.speed.value == "2,500"
    assert len(model.timeline.rounds) == 5000


@given(st.lists(st.tuples(st.floats(0.01, 3), st.integers(1, 8)), min_size=2, max_size=60))
def test_rate_is_tokens_over_the_time_they_took(rounds: list[tuple[float, int]]) -> None:
    meter, at = RateMeter(), 0.0
    marks: list[tuple[float, int]] = []
    for seconds, tokens in rounds:
        at += seconds
        marks.append((at, tokens))
        rate = meter.add(at, tokens)
        if len(marks) == 1:
            assert rate is None
            continue
        # The window reaches back a second, and over at least one whole round.
        older = [i for i, (t, _) in enumerate(marks[:-1]) if t <= at - 1.0]
        anchor = older[-1] if older else 0
        expected = sum(n for _, n in marks[anchor + 1 :]) / (at - marks[anchor][0])
        assert rate == pytest.approx(expected)


def test_blocks_lie_where_their_time_is() -> None:
    timeline = Timeline()
    for done in three_rounds():
        timeline.add(done)
    view = Stretch(11.0, 12.0, 200)
    shown = blocks(timeline.between(view.start, view.end), view)
    expected = [
        (Lane.VERIFY, 0, 40, True),
        (Lane.DRAFT, 40, 100, False),
        (Lane.VERIFY, 100, 200, False),
    ]
    for block, (lane, left, right, plain) in zip(shown, expected, strict=True):
        assert block.lane is lane
        assert (block.left, block.right) == pytest.approx((left, right))
        assert block.plain == plain
    under = timeline.at(view.time(70))
    assert under is not None
    assert under.index == 3
    assert timeline.at(9.0) is None
    assert view.x(view.time(70)) == pytest.approx(70)


def test_a_round_is_found_by_what_it_wrote_and_by_its_neighbours() -> None:
    timeline = Timeline()
    for index, (start, end) in enumerate([(0, 5), (5, 5), (5, 12)]):
        timeline.add(scripted.round_finished(index, float(index), text=(start, end)))
    found = [timeline.writing(offset) for offset in (0, 4, 5, 11, 12)]
    assert [done.index if done else None for done in found] == [0, 0, 2, 2, None]
    first, middle, last = timeline.rounds
    assert timeline.neighbour(middle, -1) is first
    assert timeline.neighbour(middle, 1) is last
    assert timeline.neighbour(last, 1) is last
    assert timeline.neighbour(first, -5) is first


def test_shares_of_rounds_that_take_turns() -> None:
    timeline = Timeline()
    for done in three_rounds():
        timeline.add(done)
    shares = timeline.shares  # from 10.5 to 12.0, round 0 left out
    assert shares is not None
    assert shares.seconds == pytest.approx(1.5)
    assert shares.draft == pytest.approx(0.5 / 1.5)
    assert shares.verify == pytest.approx(1.0 / 1.5)
    assert shares.both == 0
    assert shares.neither == pytest.approx(0)


def test_the_oldest_rounds_go_and_shares_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [
        scripted.round_finished(n, float(n), draft=0.3, verify=0.5, drafted=4, accepted=n % 4)
        for n in range(40)
    ]
    whole, short = Timeline(), Timeline()
    for done in rounds:
        whole.add(done)
    monkeypatch.setattr("app.performance.timeline._MOST_KEPT", 12)
    for done in rounds:
        short.add(done)
    assert len(short.rounds) <= 12
    assert short.shares == whole.shares
    edges = np.linspace(short.rounds[0].verify.end, rounds[-1].verify.end, 9)
    assert short.busy.keys() == whole.busy.keys()
    for lane, busy in short.busy.items():
        assert busy.between(edges) == pytest.approx(whole.busy[lane].between(edges))


@given(st.lists(st.tuples(*[st.integers(1, 9)] * 3), min_size=1, max_size=30))
def test_shares_of_lanes_that_run_ahead_equal_a_count_of_ticks(
    rounds: list[tuple[int, int, int]],
) -> None:
    """Against a naive count over whole ticks; drafts run up to 4 ticks ahead of their round."""
    timeline, clock, drafts, verifies = Timeline(), 20, set[int](), set[int]()
    for index, (draft, verify, wish) in enumerate(rounds, start=1):
        ahead = min(wish, draft, 4)
        begin = max([clock - ahead, *(tick + 1 for tick in drafts)])
        done = scripted.round_finished(
            index, begin, draft=draft, verify=verify, drafted=2, accepted=1
        )
        start = max(begin + draft, clock)
        done = RoundFinished(
            **{f: getattr(done, f) for f in done.__slots__}
            | {"verify": type(done.verify)(start, start + verify)}
        )
        timeline.add(done)
        drafts |= set(range(begin, begin + draft))
        verifies |= set(range(start, start + verify))
        clock = start + verify
    shares = timeline.shares
    assert shares is not None
    total = clock - min(drafts)
    assert shares.seconds == pytest.approx(total)
    assert shares.draft == pytest.approx(len(drafts) / total)
    assert shares.verify == pytest.approx(len(verifies) / total)
    assert shares.both == pytest.approx(len(drafts & verifies) / total)


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=12), min_size=1, max_size=20))
def test_shares_of_lanes_side_by_side_equal_a_count_of_ticks(rounds: list[list[bool]]) -> None:
    """Each round is some ticks; the draft works in some of them, the target from the second on."""
    timeline, at = Timeline(), 20
    timeline.add(scripted.round_finished(0, 10.0, verify=10.0))
    drafts, verifies, both, useful = 0, 0, 0, 0
    for index, ticks in enumerate(rounds, start=1):
        spans = tuple(Interval(at + i, at + i + 1) for i, busy in enumerate(ticks) if busy)
        if index == 1:  # a draft that reads the prompt began while the target did
            spans = (Interval(at - 3, at), *spans)
        done = scripted.round_finished(index, at, drafted=2, accepted=1)
        verify = Interval(at + 1, at + len(ticks))
        timeline.add(replace(done, drafting=spans, verify=verify, useful_s=1.0))
        drafts += sum(ticks)
        both += sum(ticks[1:])
        verifies += len(ticks) - 1
        useful += 1
        at += len(ticks)
    shares = timeline.shares
    assert shares is not None
    assert shares.seconds == pytest.approx(at - 20)
    assert shares.draft * shares.seconds == pytest.approx(drafts)
    assert shares.verify * shares.seconds == pytest.approx(verifies)
    assert shares.both * shares.seconds == pytest.approx(both)
    assert shares.useful * shares.seconds == pytest.approx(min(useful, drafts))
    assert shares.useful + shares.wasted + shares.open == pytest.approx(shares.draft)


def test_drafting_that_cannot_be_told_apart_is_one_block() -> None:
    spans = (*(Interval(t / 1000, t / 1000 + 0.0009) for t in range(400)), Interval(0.6, 1.2))
    done = replace(scripted.round_finished(1, 0.0, drafted=2), drafting=spans)
    done = replace(done, verify=Interval(0.1, 1.0))
    drafts = [b for b in blocks([done], Stretch(0.0, 1.0, 100)) if b.lane is Lane.DRAFT]
    assert [(round(b.left, 1), round(b.right, 1)) for b in drafts] == [(0.0, 40.0), (60.0, 100.0)]
    both = overlaps(blocks([done], Stretch(0.0, 1.0, 100)))
    assert both == [pytest.approx((10, 39.99)), pytest.approx((60, 100))]
    assert len(blocks([done], Stretch(0.0, 0.01, 100))) == 10, "closer up each is seen"


def test_a_round_lasts_as_long_as_anything_in_it() -> None:
    timeline = Timeline()
    first = scripted.round_finished(1, 1.0, verify=1.0, drafted=2)
    timeline.add(replace(first, drafting=(Interval(1.2, 1.4), Interval(1.6, 2.1))))
    timeline.add(scripted.round_finished(2, 2.2, verify=1.0))
    assert [done.index for done in timeline.between(2.05, 2.15)] == [1]
    assert [done.index for done in timeline.between(1.0, 1.1)] == [1]
    assert timeline.end == pytest.approx(3.2)


def test_overlap_is_found_in_pixels() -> None:
    timeline = Timeline()
    timeline.add(scripted.round_finished(1, 1.0, draft=0.4, verify=0.6, drafted=2, accepted=1))
    timeline.add(
        scripted.round_finished(2, 2.0, draft=0.5, ahead=0.5, verify=0.5, drafted=2, accepted=1)
    )
    view = Stretch(1.5, 2.5, 100)
    assert overlaps(blocks(timeline.rounds, view)) == [(pytest.approx(0), pytest.approx(50))]


def test_columns_hold_all_that_went_on_in_them() -> None:
    timeline = Timeline()
    for index in range(100):
        timeline.add(
            scripted.round_finished(index, index * 0.1, draft=0.03, verify=0.06, drafted=4)
        )
    edges = np.linspace(0.0, 10.0, 6)
    assert timeline.busy[Lane.VERIFY].between(edges) == pytest.approx([1.2] * 5, abs=0.02)
    assert timeline.busy[Lane.DRAFT].between(edges) == pytest.approx([0.6] * 5, abs=0.02)
    assert timeline.drafted.between(edges).sum() == pytest.approx(400)


def test_looked_up_drafts_leave_no_draft_idle() -> None:
    rounds = [
        scripted.round_finished(i, 0.1 * i, draft=0.0005, verify=0.09, drafted=4, accepted=2)
        for i in range(10)
    ]
    model = fed(*rounds)
    said = wording.where_time_goes(model.timeline, model.tally)
    assert said.startswith("Drafts are looked up in earlier text")
    assert "idle" not in said
    assert wording.draft_time(model.timeline.shares) == "Drafts are looked up, which takes no time."


def test_findings_in_words() -> None:
    model = fed(*three_rounds())
    assert wording.where_time_goes(model.timeline, model.tally) == (
        "Drafting takes 33\u202f% of the time, in which the target waits; verifying 67\u202f%."
        " 1 of 3 rounds went without a draft (outlined)."
    )
    overlapped = fed(*scripted.answer(10, mode="duo"))
    assert "Both are busy" in wording.where_time_goes(overlapped.timeline, overlapped.tally)
    plain = fed(*scripted.answer(10, mode="plain"))
    assert "No drafting" in wording.where_time_goes(plain.timeline, plain.tally)
    assert "while an answer is written" in wording.where_time_goes(Timeline(), None)
    assert wording.one_round(three_rounds()[1]) == (
        "Round 1: 3 of 4 drafted tokens accepted, drafting 200\u00a0ms, verifying 300\u00a0ms"
    )
    ahead = replace(three_rounds()[1], drafting=(Interval(10.5, 10.6), Interval(10.8, 10.9)))
    assert wording.one_round(ahead) == (
        "Round 1: 3 of 4 drafted tokens accepted, drafting 200\u00a0ms, verifying 300\u00a0ms, "
        "both at once 100\u00a0ms"
    )
    alone = replace(ahead, drafted=0, accepted=0)
    assert wording.one_round(alone).startswith("Round 1: no draft, drafting 200\u00a0ms, ")


def test_the_drafts_time_in_words_and_as_a_table() -> None:
    timeline = Timeline()
    assert wording.draft_time(timeline.shares) == "Nothing was drafted yet."
    assert list(of_draft_time("t", None).rows) == []
    done = scripted.round_finished(1, 0.0, verify=4.0, drafted=2, accepted=1)
    done = replace(done, drafting=(Interval(0.0, 2.0),), verify=Interval(0.0, 4.0))
    timeline.add(replace(done, useful_s=1.0, wasted_s=0.5))
    assert wording.draft_time(timeline.shares) == (
        "The draft's time: useful 25\u202f%, wasted 12\u202f%, undecided 12\u202f%, idle 50\u202f%."
    )
    assert of_draft_time("t", timeline.shares).rows[:2] == (
        ("useful", "1.00", "25\u202f%"),
        ("wasted", "0.50", "12\u202f%"),
    )
    (row,) = of_rounds("t", timeline).rows
    assert row[2:7] == ("2000.00", "4000.00", "2000.00", "1000.00", "500.00")


def connected(host: str = "192.168.1.5:8000") -> Connected:
    plan = replace(PLAN, host=host, draft=None)
    return Connected(0.0, Connect(f"http://{host}/v1", "m", ServerKind.DUOTAIL), plan)


def test_the_speed_of_an_answer_from_a_server_is_what_came_in_a_second() -> None:
    model = PerformanceModel()
    model.handle(connected())
    model.asked(0.5)
    for step in range(31):
        model.handle(Received(1.0 + step / 10, "a", 1 + 4 * step))
    assert model.tally is not None
    assert model.speed.series[0].last == pytest.approx(40.0)
    assert model.tally.tokens_per_s == pytest.approx(40.0)
    assert model.tally.ttft_s == pytest.approx(0.5)
    assert not model.timeline.rounds
    assert model.acceptance.series[0].last is None


def test_the_acceptance_length_of_a_server_moves_while_it_writes() -> None:
    model = PerformanceModel()
    model.handle(connected())
    for step, told in enumerate((None, 2.0, 2.5)):
        model.handle(Received(1.0 + step, "a", 1 + 4 * step, told))
    assert model.acceptance.series[0].last == 2.5
    assert model.acceptance.value == "2.50"
    assert model.acceptance.series[0].nearest(2.0) == (2.0, 2.0)


def test_the_servers_own_figures_stand_beside_what_was_measured_here() -> None:
    model = PerformanceModel()
    model.handle(connected())
    own = replace(stats(40), host="192.168.1.5:8000", host_tokens_per_s=55.0, acceptance_length=2.9)
    model.handle(Finished(2.0, "a", FinishReason.STOP, "", None, own))
    gain = gain_of(model.tally, None, None, None)
    assert [bar.tokens_per_s for bar in gain.bars] == [own.tokens_per_s, 55.0]
    assert "acceptance length 2.90" in gain.counts
    assert "192.168.1.5:8000" in gain.why
    assert "without the draft" not in gain.words
    assert model.acceptance.series[0].nearest(2.0) == (2.0, 2.9)
