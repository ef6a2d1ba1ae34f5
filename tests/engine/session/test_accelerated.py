"""The engine with a simulated accelerator: plans carried out, split anew, lost, called off."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

import pytest
from engine_session import Session, answer_of, generate, user
from folder_models import FOLDER_TARGET
from stopwatch import least

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.ledger import Ledger
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import DEVICE
from engine.commands import ALL_LAYERS, DraftChoice, Load, Mode, Stop, Unload
from engine.events import (
    Failed,
    FailureKind,
    Finished,
    FinishReason,
    LoadProgress,
    MachineFound,
    PlanReady,
    Unloaded,
)
from engine.loading.devices import DeviceManager
from engine.loading.load import LoadedPair
from engine.machine.facts import CPU

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
LAYERS = 8
QUESTION = "Tell me a story about a fox."
CPUS = "cpu:q8/kv-f16"


@pytest.fixture
def ledgers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Ledger]]:
    """Every ledger that a load opened; none may ever have held more than its budget."""
    opened: list[Ledger] = []
    budgets: dict[Ledger, int] = {}
    honest = DeviceManager.open

    def watched(self: DeviceManager, *arguments: Any) -> Mapping[str, Device]:
        devices = honest(self, *arguments)
        opened.extend(device.ledger for device in devices.values())
        budgets.update((device.ledger, device.ledger.budget or 0) for device in devices.values())
        return devices

    monkeypatch.setattr(DeviceManager, "open", watched)
    yield opened
    assert all(ledger.peak <= budget for ledger, budget in budgets.items())


def card(session: Session) -> SimulatedDevice:
    """The simulated accelerator that is open."""
    pair = session.engine._slot.pair
    assert pair is not None
    device = pair.devices[DEVICE]
    assert isinstance(device, SimulatedDevice)
    return device


def load(session: Session, layers: int | None = 3, **wishes: Any) -> PlanReady:
    wishes = {"simulate_gpu": GIB, "mode": Mode.DOVETAIL, **wishes}
    return session.load(FOLDER_TARGET, layers_on_gpu=layers, **wishes)


def story(session: Session, id: str = "a", **wishes: Any) -> Finished:  # noqa: A002
    return session.ask(QUESTION, id=id, max_tokens=20, **wishes)


def all_empty(ledgers: list[Ledger]) -> bool:
    return all(ledger.held == 0 for ledger in ledgers)


# -- one text, wherever it is computed -------------------------------------------------------


@pytest.mark.release(keep=5, reason="every split")
@pytest.mark.parametrize(
    ("mode", "layers", "memory", "signature"),
    [
        (Mode.PLAIN, 0, GIB, CPUS),
        (Mode.PLAIN, 5, GIB, f"sim:q8/kv-f16[0:5]+{CPUS}[5:8]"),
        (Mode.PLAIN, ALL_LAYERS, 2 * GIB, "sim:q8/kv-f16"),
        (Mode.CPU, None, GIB, CPUS),
        (Mode.DOVETAIL, 0, GIB, CPUS),
        (Mode.DOVETAIL, 3, GIB, f"sim:q8/kv-f16[0:3]+{CPUS}[3:8]"),
        (Mode.DOVETAIL, ALL_LAYERS, GIB, "sim:q8/kv-f16"),
        (Mode.AUTO, 2, GIB // 2, f"sim:q8/kv-f16[0:2]+{CPUS}[2:8]"),
        (Mode.AUTO, None, GIB // 1024, CPUS),
    ],
)
def test_modes_and_splits(
    session: Session,
    ledgers: list[Ledger],
    reference: str,
    mode: Mode,
    layers: int | None,
    memory: int,
    signature: str,
) -> None:
    plan = load(session, layers, mode=mode, simulate_gpu=memory).plan
    answer = story(session)
    assert answer.signature == plan.signature
    assert plan.signature.startswith(signature)  # a small head may stay on the CPU
    assert answer.text == reference  # the simulated accelerator computes as the CPU does
    if mode is not Mode.AUTO:
        assert plan.mode is mode
    expected = LAYERS if layers == ALL_LAYERS else layers or 0
    assert (plan.layers, plan.layers_on_gpu) == (LAYERS, expected)
    assert ("Simulated" in plan.target_device) == (expected > 0)
    assert session.wait(MachineFound).machine.accelerators[0].simulated
    held = {ledger.device: ledger.held for ledger in ledgers}
    assert held[DEVICE if expected else CPU] > 0
    assert {memory.device for memory in plan.memory} == held.keys()


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """What the CPU alone writes."""
    session = Session()
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    yield story(session).text
    session.close()


# -- between answers -------------------------------------------------------------------------


def test_the_split_changes_between_answers(session: Session, ledgers: list[Ledger]) -> None:
    load(session, 2)
    before = session.engine._slot.pair
    assert before is not None
    text, old = before.text, list(ledgers)
    del before
    hold = session.write_until(QUESTION, max_tokens=20)
    again = Load(
        FOLDER_TARGET, mode=Mode.DOVETAIL, simulate_gpu=GIB, layers_on_gpu=6, after_answer=True
    )
    session.submit(again)
    hold.release()
    first = session.wait(Finished)
    assert first.reason is FinishReason.LENGTH
    assert first.signature.startswith("sim:q8/kv-f16[0:2]")
    session.wait(PlanReady, count=2)
    second = session.ask(QUESTION, answer_of(first), user("And then?"), id="b", max_tokens=20)
    assert second.signature.startswith("sim:q8/kv-f16[0:6]")
    assert second.text
    assert all_empty(old)  # what went is free on both devices
    pair = session.engine._slot.pair
    assert pair is not None
    assert pair.text is text  # read once


def test_other_programs_take_memory_between_answers(
    session: Session, ledgers: list[Ledger]
) -> None:
    load(session, 6, mode=Mode.PLAIN)
    story(session)
    device = card(session)
    device.take_by_others(GIB - device.ledger.held - (1 << 18))
    del device
    written = story(session)  # what is held stays held
    assert written.reason is FinishReason.LENGTH
    after = len(session.events)
    session.submit(Load(FOLDER_TARGET, mode=Mode.PLAIN, simulate_gpu=GIB, layers_on_gpu=8))
    assert session.wait(PlanReady, after=after).plan.layers_on_gpu == 6  # the present one stays
    assert session.wait(Failed, after=after).kind is FailureKind.OUT_OF_MEMORY
    smaller = load(session, None, mode=Mode.AUTO).plan
    assert smaller.layers_on_gpu == 0
    assert story(session, "b").text == written.text
    assert [ledger.held for ledger in ledgers if ledger.device == DEVICE] == [0]


def test_unload_frees_everything(session: Session, ledgers: list[Ledger]) -> None:
    load(session)
    story(session)
    assert {ledger.device for ledger in ledgers} == {CPU, DEVICE}
    assert not any(ledger.held == 0 for ledger in ledgers)
    session.submit(Unload())
    session.wait(Unloaded)
    assert all_empty(ledgers)


# -- a device that goes ----------------------------------------------------------------------


def test_a_lost_device_ends_the_answer_and_the_next_one_does_without(session: Session) -> None:
    load(session, 5)
    hold = session.write_until(QUESTION, max_tokens=20)
    card(session).lose()
    session.submit(generate(QUESTION, id="b", max_tokens=20))
    hold.release()
    broken = session.wait(Finished)
    assert broken.reason is FinishReason.ERROR
    assert broken.text  # what was committed is kept
    failed = session.wait(Failed)
    assert (failed.request_id, failed.bug) == ("a", False)
    assert "Simulated GPU" in failed.cause
    plan = session.wait(PlanReady, count=2).plan
    assert (plan.layers_on_gpu, plan.signature) == (0, CPUS)
    assert plan.mode is Mode.CPU
    lost = session.of(MachineFound)[-1].machine.accelerators[0]
    assert lost.unusable
    waited = session.wait(Finished, lambda event: event.request_id == "b")
    assert waited.reason is FinishReason.LENGTH
    assert waited.text.startswith(broken.text)


def test_a_device_that_is_lost_in_a_load_is_done_without(
    session: Session, ledgers: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    shrunk = after_opening(monkeypatch, lambda device: device.lose())
    session.submit(Load(FOLDER_TARGET, simulate_gpu=GIB, layers_on_gpu=4))
    assert session.wait(PlanReady).plan.layers_on_gpu == 0
    assert session.wait(Failed).request_id is None
    assert len(shrunk) == 1
    assert story(session).reason is FinishReason.LENGTH
    assert ledgers


# -- loads that do not come to their end -----------------------------------------------------


def after_opening(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[SimulatedDevice], None]
) -> list[SimulatedDevice]:
    """Do something to every simulated accelerator that is opened from now on."""
    changed: list[SimulatedDevice] = []
    honest = DeviceManager._opened

    def opened(self: DeviceManager, *arguments: Any) -> Device:
        device = honest(self, *arguments)
        assert isinstance(device, SimulatedDevice)
        change(device)
        changed.append(device)
        return device

    monkeypatch.setattr(DeviceManager, "_opened", opened)
    return changed


@pytest.mark.release(keep=1, reason="every moment")
@pytest.mark.parametrize(("present", "room"), [(0, 1), (3, 1), (0, 45)])
def test_a_ledger_that_refuses_leaves_the_present_model(
    session: Session,
    ledgers: list[Ledger],
    monkeypatch: pytest.MonkeyPatch,
    present: int,
    room: int,
) -> None:
    """Both have `room` MiB: for none of the new weights, or for all of them and no sequence."""
    load(session, present)
    before = story(session)
    session.at_rest()
    gc.collect()  # what the answer held
    held = {ledger: ledger.held for ledger in ledgers}

    def full(device: SimulatedDevice) -> None:
        device.ledger.budget = device.ledger.held + (room << 20)

    after_opening(monkeypatch, full)
    after = len(session.events)
    session.submit(Load(FOLDER_TARGET, simulate_gpu=GIB, layers_on_gpu=6))
    assert session.wait(PlanReady, after=after).plan.layers_on_gpu == present
    failed = session.wait(Failed, after=after)
    assert failed.kind is FailureKind.OUT_OF_MEMORY
    assert "Simulated GPU" in failed.cause
    assert all_empty([ledger for ledger in ledgers if ledger not in held])
    assert {ledger.device: ledger.held for ledger in held} == {
        ledger.device: nbytes for ledger, nbytes in held.items()
    }
    assert story(session, "b").text == before.text


@pytest.mark.release(reason="a stopwatch")
def test_a_load_on_an_accelerator_is_called_off_at_once(
    session: Session, ledgers: list[Ledger]
) -> None:
    def stopping() -> float:
        after = len(session.events)
        with session.holding(LoadProgress, lambda event: 0.3 < event.fraction < 1) as hold:
            session.submit(Load(FOLDER_TARGET, simulate_gpu=GIB, layers_on_gpu=ALL_LAYERS))
            hold.reached()
            session.submit(Stop())
            asked = perf_counter()
        return session.wait(Unloaded, after=after).at - asked

    assert least(stopping, 0.3) < 0.3
    assert not session.of(PlanReady)
    assert not session.of(Failed)
    assert all_empty(ledgers)


def test_a_new_model_beside_the_present_one_keeps_to_the_budget(
    session: Session, ledgers: list[Ledger]
) -> None:
    """Both are held for a while, and together they never take more than was allowed."""
    load(session, 4)
    seen: list[int] = []

    def look(event: LoadProgress) -> bool:
        if event.fraction > 0:
            seen.append(sum(ledger.held for ledger in ledgers if ledger.device == DEVICE))
        return False

    with session.holding(LoadProgress, look):
        load(session, 8, draft=DraftChoice.NONE, mode=Mode.AUTO)
    assert max(seen) <= GIB
    pair = session.engine._slot.pair
    assert isinstance(pair, LoadedPair)
    assert pair.devices[DEVICE].ledger.budget == pair.plan.on(DEVICE).budget
