"""The engine tells what is held after every load and answer, and remembers it beside the plan."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter, sleep

import pytest
from engine_session import PATIENCE, Session
from stopwatch import least

from engine.backend.ledger import Ledger, Purpose
from engine.commands import Load, Unload
from engine.devices.kept_estimates import KeptEstimates, estimates_folder
from engine.events import MemoryHeld, PlanReady, Unloaded
from engine.loading.load import LoadedPair
from engine.machine.facts import CPU
from engine.service.memory_book import held_as_planned

GIB = 2**30
SIMULATED = "simulated:0"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def own_session(own_cache: None) -> Iterator[Session]:  # noqa: ARG001
    opened = Session()
    yield opened
    opened.close()


def pair_of(session: Session) -> LoadedPair:
    pair = session.engine._slot.pair
    assert pair is not None
    return pair


def check_adds_up(session: Session, told: MemoryHeld) -> None:
    devices = pair_of(session).devices
    assert [held.device for held in told.devices] == sorted(devices, key=lambda name: name != CPU)
    for held in told.devices:
        assert held.nbytes == sum(line.nbytes for line in held.lines)
        assert held.nbytes == devices[held.device].ledger.held
        assert held.budget == devices[held.device].ledger.budget
        assert held.predicted in (None, pair_of(session).plan.on(held.device))
        assert held.nbytes == 0 or held.predicted is not None


def test_what_is_told_is_what_the_ledgers_hold(chat_model: Path, own_session: Session) -> None:
    session = own_session
    session.load(chat_model)
    told = session.holds(1)
    check_adds_up(session, told)
    assert told.typical_error is None
    session.ask("Hello", max_tokens=3)
    told = session.holds(2)
    check_adds_up(session, told)
    assert told.typical_error is not None
    session.submit(Unload())
    session.wait(Unloaded)
    assert session.holds(3).devices == ()


def test_on_a_simulated_accelerator_too(chat_model: Path, own_session: Session) -> None:
    own_session.load(chat_model, layers_on_gpu=-1, simulate_gpu=GIB)
    told = own_session.holds(1)
    check_adds_up(own_session, told)
    assert [held.device for held in told.devices] == [CPU, SIMULATED]
    runtime = next(line for line in told.devices[1].lines if line.purpose == "runtime")
    assert (runtime.owner, runtime.touched) == ("device", 0)


def test_a_load_that_fails_tells_of_what_stays(
    chat_model: Path, own_session: Session, tmp_path: Path
) -> None:
    own_session.load(chat_model)
    own_session.submit(Load(tmp_path / "nothing"))
    own_session.wait(PlanReady, count=2)
    assert own_session.holds(2).devices == own_session.holds(1).devices


def test_loads_are_kept_beside_their_plans(chat_model: Path, own_session: Session) -> None:
    session = own_session
    session.load(chat_model, context=64)
    session.ask("Hello", max_tokens=5)
    session.load(chat_model, context=32)
    session.close()
    (kept,) = KeptEstimates().all()
    assert kept.target == "Babbler"
    assert [load.context for load in kept.loads] == [32, 64]
    assert [load.answers for load in kept.loads] == [0, 1]
    assert kept.loads[1].tokens > 5
    for load in kept.loads:
        (held,) = load.devices
        assert held.device == CPU
        assert held.held.target == held.predicted.target
        assert held.held.kv == held.predicted.kv
    assert kept.typical_error == pytest.approx(abs(kept.loads[1].error))


def test_what_is_dropped_is_freed(chat_model: Path, own_session: Session) -> None:
    """The book remembers numbers, not models."""
    own_session.load(chat_model)
    ledger = pair_of(own_session).devices[CPU].ledger
    assert ledger.held > 0
    end = monotonic() + PATIENCE
    while not KeptEstimates().all():  # until then the book's thread looks at what is held
        assert monotonic() < end
        sleep(0.01)
    own_session.submit(Unload())
    own_session.wait(Unloaded)
    own_session.at_rest()  # the thread that tells it is still where it freed the model
    gc.collect()
    assert ledger.held == 0


def test_damaged_notes_do_not_keep_a_model_from_loading(
    chat_model: Path, own_session: Session
) -> None:
    estimates_folder().mkdir(parents=True)
    (estimates_folder() / "0.json").write_text("{")
    assert own_session.load(chat_model).model == chat_model


def test_working_memory_counts_at_its_most() -> None:
    ledger = Ledger("cuda:0", "GPU")
    kept = [
        ledger.take("target", Purpose.WEIGHTS, 100),
        ledger.take("draft", Purpose.WEIGHTS, 10),
        ledger.take("device", Purpose.RUNTIME, 50),
        ledger.take("device", Purpose.WORKSPACE, 5),
        ledger.take("target", Purpose.WORKSPACE, 7),
    ]
    ledger.take("target", Purpose.WORKSPACE, 30).release()
    held = held_as_planned("cuda:0", ledger.lines())
    assert (held.target, held.draft, held.workspace, held.runtime) == (100, 10, 37, 55)
    assert len(kept) == 5


@pytest.mark.release(reason="a stopwatch")
def test_telling_costs_next_to_nothing(chat_model: Path, own_session: Session) -> None:
    """0.2 ms is the aim; a busy machine may need longer."""
    own_session.load(chat_model, layers_on_gpu=-1, simulate_gpu=GIB)
    own_session.holds(1)

    def telling() -> float:
        start = perf_counter()
        own_session.engine._slot._book.tell()
        return perf_counter() - start

    assert least(telling, enough=0.0002) < 0.002
