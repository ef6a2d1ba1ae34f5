"""A model moves between answers where its placement gives less than was predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_session import Session

from engine.commands import Mode
from engine.events import BUSY_CPU, AnswerStats, PlanReady
from engine.loading.load import LoadedPair
from engine.service.placement_watch import PlacementWatch

GIB = 2**30
QUESTION = "Tell me a story about a dog and a cat"


@pytest.fixture
def own_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))
    opened = Session()
    yield opened
    opened.close()


Telling = Callable[..., None]
"""Tells seconds of answers far above what is predicted, with other statistics as given."""
ON_CPU, ON_CARD = 0.1, 0.2
"""Seconds a token that are told: those that pass here depend on what else the machine does."""


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Telling:
    told = PlacementWatch.answered

    def make(*, others_cpu: float = 0.0, **fields: float) -> None:
        def answered(self: PlacementWatch, pair: LoadedPair, stats: AnswerStats) -> bool:
            took = (stats.committed - 1) * (ON_CARD if pair.plan.accelerator else ON_CPU)
            slow = replace(stats, ttft_s=0.1, decode_seconds=took, others_cpu=others_cpu)
            return told(self, pair, replace(slow, **fields))

        monkeypatch.setattr(PlacementWatch, "answered", answered)

    return make


@pytest.fixture
def slow(tell: Telling) -> None:
    tell()


def answers(session: Session, count: int) -> None:
    """Have so many answers written."""
    for number in range(count):
        session.ask(QUESTION, id=f"{number}", max_tokens=60)
        session.at_rest()


@pytest.mark.usefixtures("slow")
def test_auto_moves_and_remembers(chat_model: Path, own_session: Session) -> None:
    session = own_session
    first = session.load(chat_model, simulate_gpu=GIB).plan
    told = session.engine._manager.reached
    answers(session, 1)
    assert len(session.of(PlanReady)) == 1, "one answer may have been unlucky"
    answers(session, 3)
    plans = [ready.plan for ready in session.of(PlanReady)]
    machine = session.engine._manager.look(GIB)
    assert told.find(machine), "what was reached is kept"
    assert len(plans) > 1, "it has moved"
    moved = [ready.moved for ready in session.of(PlanReady)]
    assert moved == [False, *[True] * (len(plans) - 1)]
    places = [(plan.mode, plan.target_device, plan.draft_device) for plan in plans]
    assert len(set(places)) > 1
    assert any("was tried and is slower here" in reason for reason in plans[-1].reasons)
    again = session.load(chat_model, simulate_gpu=GIB, context=256).plan
    assert any("was tried and is slower here" in reason for reason in again.reasons)
    assert not session.of(PlanReady)[-1].moved, "somebody has asked for it"
    assert not any("was tried" in reason for reason in first.reasons)


@pytest.mark.usefixtures("slow")
def test_a_forced_mode_stays(chat_model: Path, own_session: Session) -> None:
    own_session.load(chat_model, simulate_gpu=GIB, mode=Mode.PLAIN)
    answers(own_session, 2)
    assert len(own_session.of(PlanReady)) == 1


def test_answers_that_other_programs_disturbed_tell_nothing(
    chat_model: Path, own_session: Session, tell: Telling
) -> None:
    tell(others_cpu=BUSY_CPU)
    own_session.load(chat_model, simulate_gpu=GIB)
    answers(own_session, 3)
    assert len(own_session.of(PlanReady)) == 1
    assert not own_session.engine._manager.reached.find(own_session.engine._manager.look(GIB))


def test_a_move_waits_until_staying_has_cost_as_much(
    chat_model: Path, own_session: Session, tell: Telling
) -> None:
    tell(ttft_s=1e6)
    own_session.load(chat_model, simulate_gpu=GIB)
    answers(own_session, 3)
    assert len(own_session.of(PlanReady)) == 1
    tell(ttft_s=0.0)
    answers(own_session, 1)
    assert len(own_session.of(PlanReady)) == 2


def test_short_answers_tell_nothing(chat_model: Path, own_session: Session) -> None:
    own_session.load(chat_model, simulate_gpu=GIB)
    own_session.ask(QUESTION, max_tokens=8)
    own_session.at_rest()
    assert not own_session.engine._manager.reached.find(own_session.engine._manager.look(GIB))
