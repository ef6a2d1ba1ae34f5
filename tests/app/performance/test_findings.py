"""Why it is slow: every sentence rests on a number that was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import scripted_rounds as scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from app.performance.evidence import (
    Evidence,
    RunFacts,
    evidence,
    others_on_cpu,
)
from app.performance.findings import Finding, FindingKind, findings
from app.performance.model import PerformanceModel
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares
from app.showcase.script import PLAN
from engine.commands import Mode
from engine.events import AcceleratorSample, DeviceSample, Interval, PlanReady
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import SMALL_BYTES, DeviceSpeeds, Speeds

GIB = 2**30
PLAN_PATH = Path("model")
TALLY = AnswerTally(
    "r", committed=101, rounds=30, plain_rounds=2, drafted=120, accepted=80, _first_at=0.0,
    _last_at=10.0,
)  # fmt: skip
SHARES = Shares(10.0, draft=0.2, verify=0.75, both=0.0, useful=0.15, wasted=0.05)
PLAIN = Evidence(tally=TALLY, shares=SHARES, plan=PLAN, draft_s=0.02, verify_s=0.075)
CARD = AcceleratorSample(
    "cuda:0", "RTX 3060", memory_used=9 * GIB, memory_ours=6 * GIB, memory_total=12 * GIB
)
SPLIT = replace(PLAN, mode=Mode.DOVETAIL, layers=36, layers_on_gpu=21)


def sampled(card: AcceleratorSample) -> DeviceSample:
    return DeviceSample(0.0, 50.0, 60.0, None, None, (card,))


CASES = [
    (FindingKind.DRAFT_COSTS, replace(PLAIN, without_draft=20.0), ("10.0", "20.0")),
    (FindingKind.DRAFT_SLOW, replace(PLAIN, draft_s=0.09), ("90\u00a0ms", "75\u00a0ms")),
    (FindingKind.HARDLY_ACCEPTED, replace(PLAIN, tally=replace(TALLY, accepted=12)), ("12", "120")),
    (FindingKind.PAUSED, replace(PLAIN, tally=replace(TALLY, plain_rounds=20)), ("20 of 30",)),
    (FindingKind.TARGET_WAITS, replace(PLAIN, shares=replace(SHARES, draft=0.45)), ("45",)),
    (FindingKind.COPYING, replace(PLAIN, shares=replace(SHARES, copying=0.14)), ("14",)),
    (FindingKind.PYTHON, replace(PLAIN, shares=replace(SHARES, verify=0.5)), ("30",)),
    (FindingKind.OTHERS_CPU, replace(PLAIN, others_cpu=35.0), ("35",)),
    (
        FindingKind.OTHERS_GPU,
        replace(PLAIN, plan=SPLIT, sample=sampled(CARD)),
        ("3.0\u00a0GiB", "RTX 3060", "15", "36"),
    ),
    (FindingKind.THREADS, replace(PLAIN, threads=8, cores=2), ("8 threads", "2 cores")),
    (
        FindingKind.CONTEXT_FULL,
        replace(PLAIN, context_used=8000, plan=replace(PLAN, kv_bytes=1000)),
        ("8,000", "8,192"),
    ),
    (FindingKind.LONG_CONTEXT, replace(PLAIN, context_used=7000), ("7\u00a0MiB", "14\u00a0MiB")),
    (
        FindingKind.PROMPT,
        replace(PLAIN, tally=replace(TALLY, asked_at=-20.0)),
        ("20.0\u00a0s", "10.0\u00a0s"),
    ),
]


@pytest.mark.parametrize(("kind", "seen", "numbers"), CASES, ids=[case[0] for case in CASES])
def test_each_trouble_is_named_with_its_numbers(
    kind: FindingKind, seen: Evidence, numbers: tuple[str, ...]
) -> None:
    found = findings(seen)
    assert [each.kind for each in found] == [kind]
    assert all(each in found[0].sentence for each in numbers), found[0].sentence


def test_what_is_all_right_is_not_blamed() -> None:
    """Nothing measured is remarkable, or nothing was measured: no trouble is made up."""
    assert kinds(PLAIN) == [FindingKind.NOTHING]
    assert "75" in findings(PLAIN)[0].sentence
    faster = replace(PLAIN, without_draft=7.0, threads=2, cores=2, others_cpu=3.0)
    assert kinds(faster) == [FindingKind.NOTHING]
    on_card = replace(PLAIN, plan=replace(SPLIT, layers_on_gpu=36), sample=sampled(CARD))
    assert kinds(on_card) == [FindingKind.NOTHING]
    ours_unknown = replace(CARD, memory_ours=None)
    assert kinds(replace(PLAIN, plan=SPLIT, sample=sampled(ours_unknown))) == [FindingKind.NOTHING]
    side_by_side = replace(SHARES, draft=0.7, verify=0.9, both=0.6)
    assert kinds(replace(PLAIN, draft_s=0.09, shares=side_by_side)) == [FindingKind.NOTHING]


def test_too_little_says_nothing() -> None:
    assert findings(Evidence()) == []
    assert findings(replace(PLAIN, tally=replace(TALLY, rounds=3))) == []
    assert findings(replace(PLAIN, shares=None)) == []


def test_the_heaviest_comes_first_and_not_all_are_told() -> None:
    seen = replace(
        PLAIN,
        without_draft=40.0,
        others_cpu=35.0,
        shares=replace(SHARES, draft=0.3, verify=0.4, copying=0.1),
        threads=4,
        cores=3,
    )
    found = findings(seen)
    assert [each.kind for each in found] == [
        FindingKind.DRAFT_COSTS,
        FindingKind.OTHERS_CPU,
        FindingKind.THREADS,
    ]
    assert [each.weight for each in found] == sorted((f.weight for f in found), reverse=True)


def test_what_limits_is_said_where_nothing_else_does() -> None:
    """14 of 18 GiB/s: near what memory gives. A cache, or a much slower check, is no such limit."""
    memory = (DeviceMemory("cpu", 0, target=GIB),)
    speeds = Speeds({"cpu": DeviceSpeeds("cpu", 18.0 * GIB, {})}, measured=True)
    seen = replace(PLAIN, plan=replace(PLAN, memory=memory), speeds=speeds, verify_s=1 / 14)
    (found,) = findings(seen)
    assert found.kind is FindingKind.LIMIT
    assert "18.0\u00a0GiB/s" in found.sentence or "18.0 GiB/s" in found.sentence
    assert "71\u00a0ms" in found.sentence
    for other in (
        replace(seen, verify_s=1 / 5),
        replace(seen, verify_s=1 / 40),
        replace(seen, speeds=replace(speeds, measured=False)),
        replace(seen, speeds=replace(speeds, devices={})),
        replace(seen, plan=replace(PLAN, memory=(DeviceMemory("cpu", 0, target=SMALL_BYTES),))),
    ):
        assert kinds(other) == [FindingKind.NOTHING]
    card = (DeviceMemory("cuda:0", 0, target=GIB),)
    there = Speeds({"cuda:0": DeviceSpeeds("cuda:0", 18.0 * GIB, {})}, measured=True)
    (found,) = findings(replace(seen, plan=replace(PLAN, memory=card), speeds=there))
    assert "the GPU allows" in found.sentence


def test_a_simulated_card_is_always_named_so() -> None:
    memory = (DeviceMemory("simulated:0", 0, target=GIB),)
    card = replace(CARD, device="simulated:0", simulated=True)
    seen = replace(PLAIN, plan=replace(PLAN, memory=memory), sample=sampled(card))
    assert kinds(seen) == [FindingKind.NOTHING, FindingKind.SIMULATED]
    assert kinds(replace(seen, plan=PLAN)) == [FindingKind.NOTHING]


def test_what_an_answer_tells() -> None:
    model = PerformanceModel()
    model.handle(PlanReady(0.0, PLAN_PATH, "m", PLAN))
    for event in scripted.answer(20):
        model.handle(event)
    seen = evidence(model, model.timeline, model.tally, RunFacts(cores=2, without_draft=7.0))
    assert seen.plan is PLAN
    assert seen.others_cpu == pytest.approx(7.6, abs=3)
    assert seen.draft_s == pytest.approx(0.05, rel=0.5)
    assert seen.verify_s == pytest.approx(0.11, rel=0.5)
    assert seen.context_used == model.timeline.rounds[-1].context_used
    assert (seen.cores, seen.without_draft) == (2, 7.0)
    assert findings(seen)
    # Of an answer from before, what the machine does now says nothing.
    before = model.timeline
    for event in scripted.answer(5, start=200.0, request_id="next"):
        model.handle(event)
    old = evidence(model, before, seen.tally, RunFacts())
    assert (old.plan, old.sample, old.others_cpu) == (None, None, None)
    assert old.verify_s == seen.verify_s


def test_copies_count() -> None:
    model = PerformanceModel()
    for index in range(20):
        done = scripted.round_finished(
            index, 0.1 * index, draft=0.02, verify=0.06, drafted=4, accepted=2
        )
        copy = Interval(0.1 * index + 0.08, 0.1 * index + 0.1)
        model.handle(replace(done, transfers=(copy,)))
    shares = model.timeline.shares
    assert shares is not None
    assert shares.copying == pytest.approx(0.2, rel=0.1)
    seen = evidence(model, model.timeline, model.tally, RunFacts())
    assert [each.kind for each in findings(seen)] == [FindingKind.COPYING]


def test_nobody_is_blamed_for_what_was_not_measured() -> None:
    model = PerformanceModel()
    assert others_on_cpu(model, model.timeline) is None
    model.handle(scripted.round_finished(0, 0.0))
    assert others_on_cpu(model, model.timeline) is None


shares = st.floats(0, 1)
maybe = st.none() | st.floats(0, 1e3)


@settings(deadline=None)
@given(
    st.builds(
        Evidence,
        tally=st.none()
        | st.builds(
            AnswerTally,
            st.just("r"),
            asked_at=maybe,
            committed=st.integers(0, 99),
            rounds=st.integers(0, 99),
            plain_rounds=st.integers(0, 99),
            drafted=st.integers(0, 200),
            accepted=st.integers(0, 200),
            _first_at=maybe,
            _last_at=st.floats(0, 1e3),
        ),
        shares=st.none()
        | st.builds(Shares, st.floats(1e-6, 1e3), shares, shares, shares, shares, shares, shares),
        plan=st.none()
        | st.builds(
            replace,
            st.just(PLAN),
            context=st.integers(0, 4096),
            target_bytes=st.integers(0, 1 << 33),
            kv_bytes=st.integers(0, 1 << 33),
            layers=st.integers(0, 40),
            layers_on_gpu=st.integers(0, 40),
            draft=st.none() | st.just("d"),
            memory=st.just(()) | st.just((DeviceMemory("cpu", 0, target=GIB),)),
        ),
        sample=st.none() | st.builds(sampled, st.just(CARD)),
        speeds=st.none() | st.just(Speeds({"cpu": DeviceSpeeds("cpu", 1e10, {})}, measured=True)),
        others_cpu=maybe,
        context_used=st.integers(0, 5000),
        draft_s=maybe,
        verify_s=maybe,
        threads=st.none() | st.integers(0, 64),
        cores=st.none() | st.integers(0, 64),
        without_draft=maybe,
    )
)
def test_whatever_was_measured_is_put_into_words(seen: Evidence) -> None:
    found = findings(seen)
    assert len(found) <= 4
    assert all(isinstance(each, Finding) and each.words for each in found)


def kinds(seen: Evidence) -> list[FindingKind]:
    return [each.kind for each in findings(seen)]


def test_a_head_is_made_for_its_model_already() -> None:
    seen = replace(PLAIN, tally=replace(TALLY, accepted=12))
    for head in (False, True):
        plan = replace(PLAN, draft_is_head=head)
        (found,) = (
            each
            for each in findings(replace(seen, plan=plan))
            if each.kind is FindingKind.HARDLY_ACCEPTED
        )
        assert ("made for this model" in found.remedy) is not head
