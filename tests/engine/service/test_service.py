"""Every command in every state of the engine: the table of `Engine`, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_session import SPEEDS, Hold, Session, Unhurried, generate

from engine.commands import Calibrate, DraftChoice, Load, Stop, Unload
from engine.events import (
    Calibrated,
    CalibrationProgress,
    Failed,
    Finished,
    FinishReason,
    LoadProgress,
    MachineFound,
    PlanReady,
    PrefillProgress,
    Unloaded,
)
from engine.machine.speeds import Speeds

WAITED_FOR = (PlanReady, Finished, Calibrated)


def under_way(event: LoadProgress) -> bool:
    """Weights are being read."""
    return 0 < event.fraction < 1


@pytest.fixture
def ready(session: Session, chat_model: Path) -> Session:
    session.load(chat_model)
    session.events.clear()
    return session


def reason_of(session: Session, request_id: str = "a") -> FinishReason:
    return session.wait(Finished, lambda event: event.request_id == request_id).reason


def position(session: Session, event: object) -> int:
    return next(index for index, other in enumerate(session.events) if other is event)


# -- empty ---------------------------------------------------------------------------------


def test_empty_load(session: Session, chat_model: Path) -> None:
    session.load(chat_model)
    *progress, last = session.events
    assert isinstance(last, PlanReady)
    assert (last.model, last.model_name) == (chat_model, "Babbler")
    assert {type(event) for event in progress} == {LoadProgress, MachineFound}


def test_empty_generate(session: Session) -> None:
    finished = session.ask("Hello")
    failed = session.wait(Failed)
    assert session.events == [failed, finished]
    assert (failed.request_id, failed.cause, failed.bug) == ("a", "No model is loaded.", False)
    assert (finished.reason, finished.text, finished.token_ids) == (FinishReason.ERROR, "", ())


def test_empty_stop(session: Session) -> None:
    session.submit(Stop(), Stop("a"), Unload())
    session.wait(Unloaded)
    assert len(session.events) == 1


def test_empty_unload(session: Session) -> None:
    session.submit(Unload())
    session.wait(Unloaded)
    assert len(session.events) == 1


def test_empty_load_after_the_answer(session: Session, chat_model: Path) -> None:
    assert session.load(chat_model, after_answer=True).model == chat_model


def test_empty_calibrate(session: Session) -> None:
    session.submit(Calibrate())
    assert session.wait(Calibrated).speeds == SPEEDS
    assert [event.fraction for event in session.of(CalibrationProgress)] == [0.5, 1.0]


# -- loading -------------------------------------------------------------------------------


def test_loading_load(session: Session, chat_model: Path, other_chat_model: Path) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Load(other_chat_model))
    assert session.wait(PlanReady).model == other_chat_model
    assert len(session.of(PlanReady)) == 1
    assert not session.of(Failed)
    assert not session.of(Unloaded)  # the window never hears of an empty engine in between


def test_loading_generate(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(generate("Hello", max_tokens=3))
    assert reason_of(session) is FinishReason.LENGTH
    assert position(session, session.wait(PlanReady)) < position(
        session, session.wait(PrefillProgress)
    )


def test_loading_stop(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Stop())
    session.wait(Unloaded)
    assert not session.of(PlanReady)
    assert not session.of(Failed)
    assert max(event.fraction for event in session.of(LoadProgress)) < 1


def test_loading_unload(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Unload())
    session.wait(Unloaded)
    assert session.ask("Hello").reason is FinishReason.ERROR
    assert not session.of(PlanReady)


def test_loading_load_after_the_answer(
    session: Session, chat_model: Path, other_chat_model: Path
) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Load(other_chat_model, after_answer=True))
    assert session.wait(PlanReady).model == other_chat_model
    assert len(session.of(PlanReady)) == 1


def test_loading_calibrate(session: Session, chat_model: Path) -> None:
    with session.holding(LoadProgress, under_way) as hold:
        session.submit(Load(chat_model))
        hold.reached()
        session.submit(Calibrate(), generate("Hello", max_tokens=2))
    assert session.wait(Calibrated).speeds == SPEEDS
    order = [type(event) for event in session.events if isinstance(event, WAITED_FOR)]
    assert order == [PlanReady, Finished, Calibrated]


# -- ready ---------------------------------------------------------------------------------


def test_ready_load(ready: Session, other_chat_model: Path) -> None:
    assert ready.load(other_chat_model).model_name == "Mumbler"
    assert not ready.of(Unloaded)


def test_ready_generate(ready: Session) -> None:
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


def test_ready_stop(ready: Session) -> None:
    ready.submit(Stop(), Stop("a"))
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH
    assert isinstance(ready.events[0], PrefillProgress)


def test_ready_unload(ready: Session) -> None:
    ready.submit(Unload())
    ready.wait(Unloaded)
    assert ready.ask("Hello").reason is FinishReason.ERROR


def test_ready_load_after_the_answer(ready: Session, other_chat_model: Path) -> None:
    assert ready.load(other_chat_model, after_answer=True).model_name == "Mumbler"


def test_ready_calibrate(ready: Session) -> None:
    ready.submit(Calibrate())
    assert ready.wait(Calibrated).speeds == SPEEDS
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


# -- generating ----------------------------------------------------------------------------


def test_generating_load(ready: Session, other_chat_model: Path) -> None:
    hold = ready.write_until("Hello")
    ready.submit(Load(other_chat_model))
    hold.release()
    plan = ready.wait(PlanReady)
    assert plan.model == other_chat_model
    assert reason_of(ready) is FinishReason.STOPPED
    assert position(ready, ready.wait(Finished)) < position(ready, plan)


def test_generating_generate(ready: Session) -> None:
    hold = ready.write_until("Hello", max_tokens=5)
    ready.submit(generate("And you?", id="b", max_tokens=5))
    hold.release()
    assert reason_of(ready, "b") is FinishReason.LENGTH
    assert reason_of(ready, "a") is FinishReason.LENGTH
    begun = ready.of(PrefillProgress, "b")[0]
    assert position(ready, ready.of(Finished, "a")[0]) < position(ready, begun)


def test_generating_stop(ready: Session) -> None:
    hold = ready.write_until("Hello")
    ready.submit(Stop("a"))
    hold.release()
    finished = ready.wait(Finished)
    assert finished.reason is FinishReason.STOPPED
    assert finished.stats.committed >= 1
    assert finished.text


def test_generating_unload(ready: Session) -> None:
    hold = ready.write_until("Hello")
    ready.submit(Unload())
    hold.release()
    unloaded = ready.wait(Unloaded)
    assert reason_of(ready) is FinishReason.STOPPED
    assert position(ready, ready.wait(Finished)) < position(ready, unloaded)


def test_generating_load_after_the_answer(ready: Session, other_chat_model: Path) -> None:
    hold = ready.write_until("Hello", max_tokens=5)
    ready.submit(
        generate("And you?", id="b", max_tokens=2), Load(other_chat_model, after_answer=True)
    )
    hold.release()
    assert reason_of(ready, "b") is FinishReason.LENGTH
    assert reason_of(ready, "a") is FinishReason.LENGTH  # to its end
    plan = ready.wait(PlanReady)
    assert plan.model == other_chat_model
    assert position(ready, ready.of(Finished, "a")[0]) < position(ready, plan)
    assert position(ready, plan) < position(ready, ready.of(PrefillProgress, "b")[0])


def test_generating_calibrate(ready: Session) -> None:
    hold = ready.write_until("Hello", max_tokens=5)
    ready.submit(Calibrate(), generate("And you?", id="b", max_tokens=2))
    hold.release()
    assert ready.wait(Calibrated).speeds == SPEEDS
    order = [type(event) for event in ready.events if isinstance(event, WAITED_FOR)]
    assert order == [Finished, Finished, Calibrated]
    assert reason_of(ready, "a") is FinishReason.LENGTH


# -- calibrating -----------------------------------------------------------------------------


@pytest.fixture
def calibrating(ready: Session) -> Iterator[Hold]:
    """Held in the middle of it."""
    with ready.holding(CalibrationProgress) as hold:
        ready.submit(Calibrate())
        hold.reached()
        yield hold


def check_ended(session: Session) -> None:
    assert session.wait(Calibrated).speeds is None
    assert len(session.of(CalibrationProgress)) == len(session.of(Calibrated)) == 1
    assert not session.of(Failed)


@pytest.mark.parametrize("after_answer", [False, True])
def test_calibrating_load(
    ready: Session, calibrating: Hold, other_chat_model: Path, after_answer: bool
) -> None:
    ready.submit(Load(other_chat_model, after_answer=after_answer))
    calibrating.release()
    assert ready.wait(PlanReady).model == other_chat_model
    check_ended(ready)


def test_calibrating_generate(ready: Session, calibrating: Hold) -> None:
    ready.submit(generate("Hello", max_tokens=3))
    calibrating.release()
    assert reason_of(ready) is FinishReason.LENGTH
    check_ended(ready)


def test_calibrating_stop(ready: Session, calibrating: Hold) -> None:
    ready.submit(Stop())
    calibrating.release()
    check_ended(ready)
    ready.submit(Calibrate())  # nothing is lost
    assert ready.wait(Calibrated, count=2).speeds == SPEEDS


def test_calibrating_unload(ready: Session, calibrating: Hold) -> None:
    ready.submit(Unload())
    calibrating.release()
    ready.wait(Unloaded)
    check_ended(ready)


def test_calibrating_calibrate(ready: Session, calibrating: Hold) -> None:
    ready.submit(Calibrate())
    calibrating.release()
    assert ready.wait(Calibrated).speeds == SPEEDS
    ready.submit(Unload())
    ready.wait(Unloaded)
    assert len(ready.of(Calibrated)) == 1


def test_a_calibration_behind_one_that_is_called_off(ready: Session, calibrating: Hold) -> None:
    ready.submit(Stop(), Calibrate())
    calibrating.release()
    assert ready.wait(Calibrated).speeds is None
    assert ready.wait(Calibrated, count=2).speeds == SPEEDS


def test_a_calibration_that_is_asked_for_at_the_end_of_the_last_one(ready: Session) -> None:
    with ready.holding(Calibrated) as hold:
        ready.submit(Calibrate())
        hold.reached()
        ready.submit(Calibrate())
    assert ready.wait(Calibrated, count=2).speeds == SPEEDS


# -- what waits ----------------------------------------------------------------------------


def test_stop_takes_a_waiting_answer_out(ready: Session) -> None:
    hold = ready.write_until("Hello", max_tokens=5)
    ready.submit(generate("And you?", id="b"), generate("Why?", id="c", max_tokens=2), Stop("b"))
    assert reason_of(ready, "b") is FinishReason.STOPPED  # at once, while the other is held
    hold.release()
    assert reason_of(ready, "c") is FinishReason.LENGTH
    assert reason_of(ready, "a") is FinishReason.LENGTH
    assert not ready.of(PrefillProgress, "b")


def test_stop_without_an_id_stops_everything(ready: Session, other_chat_model: Path) -> None:
    hold = ready.write_until("Hello")
    ready.submit(generate("And you?", id="b"), Load(other_chat_model), Stop())
    hold.release()
    assert ready.wait(PlanReady).model_name == "Babbler"  # whoever waits for the load hears of it
    assert reason_of(ready, "a") is reason_of(ready, "b") is FinishReason.STOPPED
    assert not ready.of(LoadProgress)


def test_a_stop_for_another_answer_does_nothing(ready: Session) -> None:
    hold = ready.write_until("Hello", max_tokens=4)
    ready.submit(Stop("b"))
    hold.release()
    assert reason_of(ready, "a") is FinishReason.LENGTH


def test_waiting_answers_are_written_by_the_new_model(
    ready: Session, other_chat_model: Path
) -> None:
    hold = ready.write_until("Hello")
    ready.submit(
        generate("Hello", id="b", max_tokens=6),
        Load(other_chat_model, DraftChoice.NONE),
    )
    hold.release()
    waited = ready.wait(Finished, lambda event: event.request_id == "b")
    assert ready.wait(PlanReady).model_name == "Mumbler"
    assert waited.token_ids == ready.ask("Hello", id="c", max_tokens=6).token_ids


def test_the_newest_of_several_loads_wins(
    ready: Session, chat_model: Path, other_chat_model: Path
) -> None:
    hold = ready.write_until("Hello")
    for model in (chat_model, chat_model, other_chat_model):
        ready.submit(Load(model))
    hold.release()
    assert ready.wait(PlanReady).model_name == "Mumbler"
    ready.submit(Unload())
    ready.wait(Unloaded)
    assert len(ready.of(PlanReady)) == 1


def test_a_cancelled_load_leaves_the_present_model(ready: Session, other_chat_model: Path) -> None:
    with ready.holding(LoadProgress, under_way) as hold:
        ready.submit(Load(other_chat_model))
        hold.reached()
        ready.submit(Stop())
    assert ready.wait(PlanReady).model_name == "Babbler"
    assert not ready.of(Unloaded)
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


def test_a_stop_takes_a_waiting_calibration_out(ready: Session) -> None:
    hold = ready.write_until("Hello")
    ready.submit(Calibrate(), Stop("b"))
    assert not ready.of(Calibrated)  # it was not meant
    ready.submit(Stop())
    assert ready.wait(Calibrated).speeds is None  # at once
    hold.release()
    assert reason_of(ready) is FinishReason.STOPPED
    assert not ready.of(CalibrationProgress)


def test_a_stop_calls_off_a_load_that_waits_for_the_answer(
    ready: Session, other_chat_model: Path
) -> None:
    hold = ready.write_until("Hello")
    ready.submit(Load(other_chat_model, after_answer=True), Stop("a"))
    hold.release()
    assert ready.wait(PlanReady).model == other_chat_model  # the answer alone was stopped
    hold = ready.write_until("Hello", id="b")
    ready.submit(Load(other_chat_model, after_answer=True), Stop())
    hold.release()
    assert ready.wait(PlanReady, count=2).model == other_chat_model
    assert reason_of(ready, "a") is reason_of(ready, "b") is FinishReason.STOPPED


def test_a_change_that_waits_is_taken_back_without_another_load(
    ready: Session, chat_model: Path, other_chat_model: Path
) -> None:
    hold = ready.write_until("Hello")
    ready.submit(
        Load(other_chat_model, after_answer=True),
        Load(chat_model, after_answer=True, unless_so=True),
    )
    hold.release()
    assert ready.wait(PlanReady).model == chat_model
    assert reason_of(ready) is not FinishReason.STOPPED
    assert not ready.of(LoadProgress)  # it was told, not loaded


def test_the_same_model_otherwise_is_loaded(ready: Session, chat_model: Path) -> None:
    ready.submit(Load(chat_model, context=64, unless_so=True))
    assert ready.wait(PlanReady).plan.context == 64
    assert ready.of(LoadProgress)


def test_a_calibration_that_fails_is_told_and_lived_through(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> Speeds:
        raise OSError("no clock")

    monkeypatch.setattr(Unhurried, "measure", broken)
    ready.submit(Calibrate())
    assert ready.wait(Calibrated).speeds is None
    assert ready.wait(Failed).request_id is None
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH
