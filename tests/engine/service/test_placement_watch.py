"""A model moves between answers where its placement gives less than was predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_session import Session

from engine.commands import Mode
from engine.events import AnswerStats, PlanReady
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


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers take a hundred times as long as they do."""
    told = PlacementWatch.answered

    def answered(self: PlacementWatch, pair: LoadedPair, stats: AnswerStats) -> bool:
        return told(self, pair, replace(stats, decode_seconds=100 * stats.decode_seconds))

    monkeypatch.setattr(PlacementWatch, "answered", answered)


@pytest.mark.usefixtures("slow")
def test_auto_moves_and_remembers(chat_model: Path, own_session: Session) -> None:
    session = own_session
    first = session.load(chat_model, simulate_gpu=GIB).plan
    told = session.engine._manager.reached
    for number in range(4):
        session.ask(QUESTION, id=f"{number}", max_tokens=60)
        session.at_rest()
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
    for number in range(2):
        own_session.ask(QUESTION, id=f"{number}", max_tokens=60)
        own_session.at_rest()
    assert len(own_session.of(PlanReady)) == 1


def test_short_answers_tell_nothing(chat_model: Path, own_session: Session) -> None:
    own_session.load(chat_model, simulate_gpu=GIB)
    own_session.ask(QUESTION, max_tokens=8)
    own_session.at_rest()
    assert not own_session.engine._manager.reached.find(own_session.engine._manager.look(GIB))
