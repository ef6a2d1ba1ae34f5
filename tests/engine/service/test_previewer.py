"""Previews: what a load would come to, told while the engine does something else."""

from __future__ import annotations

from pathlib import Path

from engine_session import Session

from engine.commands import DraftChoice, Load, Mode, Preview
from engine.events import FailureKind, Finished, Previewed

GIB = 2**30


def preview(session: Session, load: Load) -> Previewed:
    after = len(session.events)
    session.submit(Preview(load))
    return session.wait(Previewed, lambda told: told.load == load, after=after)


def test_a_preview_says_what_the_load_will_come_to(session: Session, chat_model: Path) -> None:
    load = Load(chat_model, draft=DraftChoice.LOOKUP, context=256, simulate_gpu=GIB)
    told = preview(session, load)
    assert told.plan is not None
    assert told.refusal is None
    ready = session.load(chat_model, draft=DraftChoice.LOOKUP, context=256, simulate_gpu=GIB)
    assert told.plan.mode is ready.plan.mode
    assert told.plan.context == ready.plan.context
    assert told.plan.memory[0].target == ready.plan.memory[0].target
    assert {curve.mode for curve in told.curves} == {
        Mode.AUTO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN,
    }  # fmt: skip
    assert told.curves[0].mode is Mode.AUTO


def test_it_is_told_in_the_middle_of_an_answer(session: Session, chat_model: Path) -> None:
    session.load(chat_model)
    hold = session.write_until("Hello", max_tokens=32)
    told = preview(session, Load(chat_model, mode=Mode.DOVETAIL, simulate_gpu=GIB))
    assert told.curves[0].mode is Mode.DOVETAIL
    assert told.curves[0].layers == told.curves[0].points[-1].layers_on_gpu
    hold.release()
    session.wait(Finished)


def test_modes_that_are_impossible_here_have_no_curve(session: Session, chat_model: Path) -> None:
    told = preview(session, Load(chat_model, mode=Mode.PLAIN))
    assert told.plan is not None
    assert told.plan.mode is Mode.PLAIN
    assert {curve.mode for curve in told.curves} == {Mode.AUTO, Mode.CPU, Mode.PLAIN}


def test_what_cannot_be_is_refused_in_words(session: Session, chat_model: Path) -> None:
    told = preview(session, Load(chat_model, mode=Mode.DOVETAIL))
    assert told.plan is None
    assert told.refusal is not None
    assert told.refusal.kind is FailureKind.ABSENT
    assert "GPU" in told.refusal.cause
    gone = preview(session, Load(chat_model / "not there"))
    assert gone.refusal is not None
    assert gone.refusal.cause


def test_a_draft_that_cannot_be_used_spoils_no_plain_plan(
    session: Session, chat_model: Path, tmp_path: Path
) -> None:
    told = preview(session, Load(chat_model, draft=tmp_path / "gone", mode=Mode.PLAIN))
    assert told.refusal is None
    assert told.plan is not None
    assert told.plan.mode is Mode.PLAIN
    assert Mode.PLAIN in {curve.mode for curve in told.curves}
