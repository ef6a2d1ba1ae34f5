"""The model in every mode, in turns; whatever happens meanwhile, it runs again as before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest
from engine_session import Session, anything, generate
from folder_models import FOLDER_TARGET

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.simulated.device import SimulatedDevice
from engine.bench.modes import comparison
from engine.bench.modes.questions import QUESTIONS
from engine.commands import Calibrate, Command, Compare, DraftChoice, Load, Mode, Stop, Unload
from engine.devices.probe import probe_host
from engine.errors import OutOfMemory
from engine.events import (
    Calibrated,
    CalibrationProgress,
    Compared,
    CompareProgress,
    Event,
    Failed,
    Finished,
    LoadProgress,
    ModeRun,
    PlanReady,
    TextDelta,
    Unloaded,
)
from engine.loading import devices
from engine.loading.devices import DeviceManager
from engine.machine.facts import Machine

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 1 << 30
FEW = Compare(passes=1, tokens=9)
ALL = (Mode.AUTO, Mode.DUO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's noise makes no difference to what is measured."""
    monkeypatch.setattr(comparison, "noisy", lambda _runs: False)


@pytest.fixture
def ready(session: Session) -> Session:
    """The bundled pair with a simulated accelerator, left to itself."""
    session.load(FOLDER_TARGET, simulate_gpu=GIB)
    return session


def compare(session: Session, wish: Compare = FEW) -> Compared:
    after = len(session.events)
    session.submit(wish)
    return session.wait(Compared, after=after)


def by_mode(compared: Compared) -> dict[Mode, ModeRun]:
    return {run.mode: run for run in compared.runs}


def turns(session: Session) -> list[Mode]:
    """The modes in the order of their turns, each turn once."""
    modes = [event.mode for event in session.of(CompareProgress)]
    return [mode for before, mode in pairwise([None, *modes]) if mode not in (None, before)]


def loads(session: Session) -> list[Mode]:
    return [event.mode for event in session.of(CompareProgress) if event.loading]


def as_before(session: Session, home: PlanReady, after: int) -> None:
    """The model runs as it did, which was said before the comparison's end, and answers."""
    back = session.wait(PlanReady, after=after)
    ended = session.wait(Compared, after=after)
    told = [event for event in session.events[after:] if isinstance(event, PlanReady | Compared)]
    assert told == [back, ended]
    assert back.load == home.load
    assert back.plan.mode is home.plan.mode
    assert back.plan.signature == home.plan.signature
    assert session.ask("Hello", id="later", max_tokens=4).stats.committed


def test_every_mode_is_measured_and_the_model_stays(ready: Session) -> None:
    home = ready.of(PlanReady)[-1]
    ready.ask("Tell me about the sea.", max_tokens=4)
    after = len(ready.events)
    compared = compare(ready, Compare(passes=2, tokens=12))
    assert compared.complete
    assert compared.model == FOLDER_TARGET
    assert tuple(run.mode for run in compared.runs) == ALL
    measured = [run for run in compared.runs if run.same_as is None]
    assert {run.plan.mode for run in measured if run.plan} == set(ALL) - {Mode.AUTO}
    for run in measured:
        assert run.plan is not None
        assert run.plan.signature
        assert len(run.speeds) == 2 * len(QUESTIONS)
        assert run.answers == len([speed for speed in run.speeds if speed is not None])
        assert run.tokens_per_s is not None
        assert run.lowest is not None
        assert run.highest is not None
        assert 0 < run.lowest <= run.tokens_per_s <= run.highest
        assert run.ttft_s is not None
        assert (run.acceptance_length is not None) >= (run.mode in (Mode.DUO, Mode.DOVETAIL))
    alike = [run for run in compared.runs if run.same_as is not None]
    assert {run.same_as for run in alike} <= {Mode.AUTO}
    assert not any(run.speeds for run in alike)
    assert compared.winner in {run.mode for run in measured}
    fractions = [event.fraction for event in ready.of(CompareProgress)]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert fractions[-1] < 1
    said = {type(event) for event in ready.events[after:]}
    assert not said & {TextDelta, Finished, Failed, LoadProgress, Unloaded}
    as_before(ready, home, after)
    asked = ready.ask("Tell me about the sea.", id="again", max_tokens=4)
    assert asked.stats.reused_tokens == asked.stats.prompt_tokens - 1, "what was kept is kept"


def test_what_is_too_noisy_is_measured_once_more(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "noisy", lambda _runs: True)
    compared = compare(ready, Compare((Mode.CPU, Mode.PLAIN), passes=1, tokens=4))
    assert compared.noisy
    assert all(len(run.speeds) == 2 * len(QUESTIONS) for run in compared.runs)
    again = [event.again for event in ready.of(CompareProgress)]
    assert again == sorted(again)
    assert again.count(True) >= 2 * len(QUESTIONS)


@pytest.fixture
def on_the_cpu(session: Session) -> Session:
    """The same with everything on the CPU."""
    session.load(FOLDER_TARGET, simulate_gpu=GIB, mode=Mode.CPU)
    return session


THREE = (Mode.DUO, Mode.DOVETAIL, Mode.CPU)


def test_the_turns_go_to_and_fro(on_the_cpu: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs at home begins and ends; the others are loaded as seldom as that allows."""
    monkeypatch.setattr(comparison, "SLOW_CHANGE_S", inf)
    compare(on_the_cpu, Compare(THREE, passes=2, tokens=4))
    assert turns(on_the_cpu) == [Mode.CPU, Mode.DUO, Mode.DOVETAIL, Mode.DUO, Mode.CPU]
    assert loads(on_the_cpu) == [Mode.DUO, Mode.DOVETAIL, Mode.DUO]


@pytest.mark.release(reason="several passes")
def test_where_a_change_is_dear_each_mode_is_loaded_once(
    on_the_cpu: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "SLOW_CHANGE_S", -1.0)
    compared = compare(on_the_cpu, Compare(THREE, passes=3, tokens=4))
    assert turns(on_the_cpu) == [Mode.CPU, Mode.DUO, Mode.DOVETAIL, Mode.CPU]
    assert loads(on_the_cpu) == [Mode.DUO, Mode.DOVETAIL]
    assert {len(run.speeds) for run in compared.runs} == {3 * len(QUESTIONS)}


def test_only_some_modes(ready: Session) -> None:
    compared = compare(ready, Compare((Mode.DOVETAIL, Mode.PLAIN), passes=1, tokens=4))
    assert [run.mode for run in compared.runs] == [Mode.DOVETAIL, Mode.PLAIN]


def test_without_an_accelerator_the_modes_that_need_one_are_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "probe_machine", lambda: Machine(probe_host()))
    session.load(FOLDER_TARGET, draft=DraftChoice.LOOKUP)
    runs = by_mode(compare(session))
    assert "GPU" in runs[Mode.DUO].refusal
    assert "GPU" in runs[Mode.DOVETAIL].refusal
    assert runs[Mode.PLAIN].tokens_per_s
    assert runs[Mode.AUTO].tokens_per_s
    assert not loads(session), "the pair that is there serves all of them"


@pytest.mark.release(reason="a whole comparison in every state")
def test_a_forced_mode_is_returned_to(session: Session) -> None:
    session.load(FOLDER_TARGET, simulate_gpu=GIB, mode=Mode.DOVETAIL, layers_on_gpu=3)
    home = session.of(PlanReady)[-1]
    after = len(session.events)
    runs = by_mode(compare(session))
    dovetail = runs[Mode.DOVETAIL].plan
    assert dovetail is not None
    assert dovetail.layers_on_gpu == 3, "measured as it runs"
    assert Mode.DOVETAIL not in loads(session)
    as_before(session, home, after)
    assert session.of(PlanReady)[-1].plan.layers_on_gpu == 3


# -- called off ------------------------------------------------------------------------------


def nth(number: int) -> Callable[[Any], bool]:
    """True of the event at that place among those that are asked about."""
    left = [number]

    def fits(_event: Any) -> bool:
        left[0] -= 1
        return left[0] < 0

    return fits


PLACES = (1, 9, 11)
"""Among the progress events of `FEW`: the first, in a turn, before and behind changes."""


@pytest.fixture(params=[True, False], ids=["beside", "alone"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether memory holds the model and another one."""
    if not request.param:
        monkeypatch.setattr(comparison, "fits_beside", lambda *_: False)
    return bool(request.param)


@pytest.mark.release(keep=1, reason="every stage")
@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("place", PLACES)
def test_a_stop_at_any_stage(ready: Session, place: int) -> None:
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    with ready.holding(CompareProgress, nth(place)) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(Stop())
    compared = ready.wait(Compared, after=after)
    assert not compared.complete
    assert compared.winner is None
    as_before(ready, home, after)


@pytest.mark.release(keep=1, reason="every stage")
@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("place", [1, 10])
def test_an_answer_ends_it_and_is_written_by_the_model_of_before(
    ready: Session, place: int
) -> None:
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    with ready.holding(CompareProgress, nth(place)) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(generate("Hello", id="b", max_tokens=4))
    finished = ready.wait(Finished, lambda event: event.request_id == "b", after=after)
    assert finished.stats.committed
    assert finished.signature == home.plan.signature
    assert not ready.wait(Compared, after=after).complete
    as_before(ready, home, after)


@pytest.mark.release(keep=1, reason="every stage")
@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("after_answer", [False, True])
def test_another_load_ends_it(ready: Session, chat_model: Path, after_answer: bool) -> None:
    after = len(ready.events)
    with ready.holding(CompareProgress, nth(10)) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(Load(chat_model, after_answer=after_answer))
    assert ready.wait(PlanReady, after=after).model == chat_model
    assert not ready.wait(Compared, after=after).complete
    assert len([event for event in ready.events[after:] if isinstance(event, PlanReady)]) == 1


@pytest.mark.release(keep=1, reason="every stage")
@pytest.mark.usefixtures("room")
def test_an_unload_ends_it(ready: Session) -> None:
    after = len(ready.events)
    with ready.holding(CompareProgress, nth(10)) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(Unload())
    ready.wait(Unloaded, after=after)
    assert not ready.wait(Compared, after=after).complete
    assert not [event for event in ready.events[after:] if isinstance(event, PlanReady)]


@pytest.mark.release(reason="every command")
@pytest.mark.parametrize("late", [Stop(), Compare(passes=1, tokens=4)])
def test_nothing_but_another_model_keeps_it_from_coming_back(
    ready: Session, monkeypatch: pytest.MonkeyPatch, late: Command
) -> None:
    """Stopped again while the model comes back, which had to give way."""
    monkeypatch.setattr(comparison, "fits_beside", lambda *_: False)
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    with ready.holding(LoadProgress, lambda event: event.fraction > 0) as back:
        with ready.holding(CompareProgress, nth(10)) as hold:
            ready.submit(FEW)
            hold.reached()
            ready.submit(Stop())
        back.reached()
        ready.submit(late)
    assert ready.wait(PlanReady, after=after).load == home.load
    assert not [event for event in ready.events[after:] if isinstance(event, Unloaded)]
    ready.wait(Compared, after=after, count=2 if isinstance(late, Compare) else 1)


@pytest.mark.release(reason="a whole comparison in every state")
def test_close_in_the_middle(ready: Session) -> None:
    with ready.holding(CompareProgress, nth(10)) as hold:
        ready.submit(FEW)
        hold.reached()
    ready.close()
    assert not ready.engine._thread.is_alive()


# -- what fails ------------------------------------------------------------------------------


@pytest.mark.release(keep=1, reason="with and without room")
@pytest.mark.usefixtures("room")
def test_a_mode_that_fails_is_told_of_and_the_others_go_on(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = comparison.load

    def load(checked: Any, *arguments: Any, **named: Any) -> Any:
        if checked.inspection.command.mode is Mode.DUO:
            raise OutOfMemory("The card is full.", "Close something.")
        return honest(checked, *arguments, **named)

    monkeypatch.setattr(comparison, "load", load)
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    compared = compare(ready)
    runs = by_mode(compared)
    assert runs[Mode.DUO].refusal == "The card is full."
    assert runs[Mode.DUO].plan is None
    assert runs[Mode.DOVETAIL].tokens_per_s
    assert runs[Mode.PLAIN].tokens_per_s
    assert compared.complete
    as_before(ready, home, after)


@pytest.mark.release(reason="a whole comparison for every mistake")
def test_a_mistake_in_an_answer_ends_that_mode_only(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = comparison.ask

    def ask(pair: Any, *arguments: Any) -> Any:
        if pair.plan.mode is Mode.DOVETAIL:
            raise RuntimeError("broken")
        return honest(pair, *arguments)

    monkeypatch.setattr(comparison, "ask", ask)
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    runs = by_mode(compare(ready))
    assert runs[Mode.DOVETAIL].refusal == "Something went wrong inside Duotail."
    assert runs[Mode.DUO].tokens_per_s
    as_before(ready, home, after)


def opening(monkeypatch: pytest.MonkeyPatch, change: Callable[[SimulatedDevice], None]) -> None:
    """Do something to every simulated accelerator that is opened from now on."""
    honest = DeviceManager._opened

    def opened(self: DeviceManager, *arguments: Any) -> Device:
        device = honest(self, *arguments)
        assert isinstance(device, SimulatedDevice)
        change(device)
        return device

    monkeypatch.setattr(DeviceManager, "_opened", opened)


def test_an_accelerator_that_is_lost_takes_its_modes_with_it(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening(monkeypatch, SimulatedDevice.lose)
    home, after = ready.of(PlanReady)[-1], len(ready.events)
    compared = compare(ready)
    runs = by_mode(compared)
    assert "Simulated GPU" in runs[Mode.DUO].refusal
    assert "Simulated GPU" in runs[Mode.DOVETAIL].refusal
    assert runs[Mode.PLAIN].tokens_per_s
    assert not compared.complete
    assert compared.winner is None
    as_before(ready, home, after)


def test_a_model_on_a_lost_accelerator_goes_on_without(session: Session) -> None:
    session.load(FOLDER_TARGET, simulate_gpu=GIB, mode=Mode.DOVETAIL)
    after = len(session.events)

    def lost(_event: Any) -> bool:
        pair = session.engine._slot.pair
        assert pair is not None
        for device in pair.devices.values():
            if isinstance(device, SimulatedDevice):
                device.lose()
        return True

    with session.holding(CompareProgress, lost) as hold:
        session.submit(FEW)
        hold.reached()
    compared = session.wait(Compared, after=after)
    assert not compared.complete
    runs = by_mode(compared)
    assert "Simulated GPU" in runs[Mode.DOVETAIL].refusal
    assert runs[Mode.CPU].tokens_per_s or runs[Mode.CPU].same_as
    assert session.wait(PlanReady, after=after).plan.layers_on_gpu == 0
    assert session.ask("Hello", id="later", max_tokens=4).stats.committed


# -- in every state --------------------------------------------------------------------------


def test_empty_compare(session: Session) -> None:
    compared = compare(session)
    failed = session.wait(Failed)
    assert (failed.request_id, failed.cause, failed.bug) == (None, "No model is loaded.", False)
    assert (compared.runs, compared.complete) == ((), False)


@pytest.mark.release(reason="a whole comparison in every state")
def test_loading_compare(session: Session) -> None:
    with session.holding(LoadProgress) as hold:
        session.submit(Load(FOLDER_TARGET))
        hold.reached()
        session.submit(FEW)
    assert session.wait(Compared).complete
    assert isinstance(first_of(session, PlanReady, CompareProgress), PlanReady)


@pytest.mark.release(reason="a whole comparison in every state")
def test_generating_compare(ready: Session) -> None:
    hold = ready.write_until("Tell me a story.", max_tokens=8)
    ready.submit(FEW)
    hold.release()
    assert ready.wait(Compared).complete
    assert isinstance(first_of(ready, Finished, CompareProgress), Finished)


@pytest.mark.release(reason="a whole comparison in every state")
def test_calibrating_compare(ready: Session) -> None:
    with ready.holding(CalibrationProgress) as hold:
        ready.submit(Calibrate())
        hold.reached()
        ready.submit(FEW)
    assert ready.wait(Compared).complete
    assert ready.wait(Calibrated).speeds is not None
    assert isinstance(first_of(ready, Calibrated, CompareProgress), Calibrated)


@pytest.mark.release(reason="a whole comparison in every state")
def test_comparing_calibrate(ready: Session) -> None:
    with ready.holding(CompareProgress) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(Calibrate())
    assert ready.wait(Calibrated).speeds is not None
    assert ready.wait(Compared).complete


@pytest.mark.release(reason="a whole comparison in every state")
def test_comparing_compare(ready: Session) -> None:
    with ready.holding(CompareProgress) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(FEW)
    ready.wait(Compared)
    ready.ask("Hello", max_tokens=2)
    assert len(ready.of(Compared)) == 1


@pytest.mark.release(reason="two comparisons")
def test_a_comparison_that_is_asked_for_at_the_end_of_the_last_one(ready: Session) -> None:
    with ready.holding(Compared) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(FEW)
    assert ready.wait(Compared, count=2).complete


def test_a_stop_takes_a_waiting_comparison_out(ready: Session) -> None:
    hold = ready.write_until("Tell me a story.", max_tokens=8)
    ready.submit(FEW, Stop())
    hold.release()
    compared = ready.wait(Compared)
    assert (compared.model, compared.runs) == (FOLDER_TARGET, ())
    assert not compared.complete


def test_a_stop_for_an_answer_leaves_it_alone(ready: Session) -> None:
    with ready.holding(CompareProgress, anything) as hold:
        ready.submit(FEW)
        hold.reached()
        ready.submit(Stop("another"))
    assert ready.wait(Compared).complete


def first_of(session: Session, *kinds: type[Any]) -> Event:
    return next(event for event in session.events if isinstance(event, kinds))
