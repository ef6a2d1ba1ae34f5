"""A load that does not fit: what is missing, who holds it, what would fit, and that it does."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from engine_session import Session
from hollow_models import LLAMA_13B, write_hollow_model

import engine.loading.devices
import engine.service.model_slot
from engine.backend.ledger import Ledger, Purpose
from engine.backend.simulated.spec import DEVICE
from engine.commands import ALL_LAYERS, Load, Mode, Preview, WeightFormat
from engine.devices.probe import probe_host
from engine.errors import OutOfMemory, failed
from engine.events import Failed, FailureKind, Previewed, Unloaded
from engine.loading.devices import DeviceManager
from engine.loading.planned_load import plan_load
from engine.machine.facts import CPU, Machine
from engine.machine.memory import Holder

GIB = 2**30
FIREFOX = (Holder("firefox", 4711, 3 * GIB),)

sparse = pytest.mark.skipif(sys.platform == "win32", reason="files have no holes there by default")


@pytest.fixture
def small_pc(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """16 GiB, 11 of which are free; a browser has the most of the rest."""
    host = replace(probe_host(), memory_total=16 * GIB, memory_available=11 * GIB)
    monkeypatch.setattr(engine.loading.devices, "probe_host", lambda: host)
    machine = Machine(host)
    monkeypatch.setattr(engine.loading.devices, "probe_machine", lambda: machine)
    monkeypatch.setattr(engine.service.model_slot, "holders_on_host", lambda: FIREFOX)
    return machine


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: object) -> None:
        pytest.fail("weights were read of a model that does not fit")

    monkeypatch.setattr(engine.service.model_slot, "load", forbidden)


def refusal(session: Session, load: Load) -> Failed:
    after = len(session.events)
    session.submit(load)
    told = session.wait(Failed, after=after)
    session.at_rest()  # behind it comes what is in memory instead
    return told


@sparse
@pytest.mark.usefixtures("nothing_is_read")
def test_a_13b_at_16_bit_on_a_small_machine(
    session: Session, small_pc: Machine, tmp_path: Path
) -> None:
    """Told before anything is read; each way out plans as it was told; a preview says the same."""
    folder = write_hollow_model(tmp_path / "Big", LLAMA_13B)
    load = Load(folder, weights=WeightFormat.BF16)
    told = refusal(session, load)
    assert told.kind is FailureKind.OUT_OF_MEMORY
    lacking = told.shortage
    assert lacking is not None
    assert (lacking.device, lacking.holders) == (CPU, FIREFOX)
    assert lacking.needed.target == pytest.approx(26.03e9, rel=0.01)  # 13.0e9 weights of two bytes
    assert 13 * GIB < lacking.missing < 16 * GIB
    assert [way.words for way in told.ways_out] == ["4-bit weights"]
    for way in told.ways_out:
        planned = plan_load(way.load, small_pc).summary
        assert planned.tokens_per_s == way.tokens_per_s
        assert planned.memory[0].total < 11 * GIB
    session.submit(Preview(load))
    event = session.wait(Previewed)
    previewed = event.refusal
    assert previewed is not None
    assert (previewed.shortage, previewed.ways_out) == (told.shortage, told.ways_out)
    for curve in event.curves:
        assert curve.points == ()
        assert curve.refusal == f"{told.cause} {told.remedy}"


@sparse
@pytest.mark.usefixtures("nothing_is_read")
def test_what_fits_in_no_way_says_so(session: Session, small_pc: Machine, tmp_path: Path) -> None:
    assert small_pc.host.memory_available == 11 * GIB
    folder = write_hollow_model(tmp_path / "Giant", LLAMA_13B | {"num_hidden_layers": 160})
    told = refusal(session, Load(folder))
    assert told.ways_out == ()
    assert told.remedy == "Close other programs, or choose a smaller model."


def test_a_card_that_others_have_taken(session: Session, chat_model: Path) -> None:
    """The simulated one, and what was taken of it is named as simulated. The ways out load."""
    session.load(chat_model, mode=Mode.PLAIN, layers_on_gpu=1, simulate_gpu=GIB)
    device = session.engine._manager.simulated()
    assert device is not None
    device.take_by_others(GIB - device.ledger.held)
    told = refusal(
        session, Load(chat_model, mode=Mode.PLAIN, layers_on_gpu=ALL_LAYERS, simulate_gpu=GIB)
    )
    lacking = told.shortage
    assert lacking is not None
    assert lacking.device == DEVICE
    assert lacking.missing > 0
    (holder,) = lacking.holders
    assert (holder.nbytes, "simulated" in holder.name) == (
        device.accelerator.memory_of_others,
        True,
    )
    assert told.ways_out
    for way in told.ways_out:
        ready = session.load(**_wishes(way.load))
        assert ready.load == way.load


def _wishes(load: Load) -> dict[str, object]:
    return {"model": load.model, "mode": load.mode, "context": load.context, "vram": load.vram,
            "weights": load.weights, "kv": load.kv, "layers_on_gpu": load.layers_on_gpu,
            "draft": load.draft, "simulate_gpu": load.simulate_gpu}  # fmt: skip


def test_a_load_that_fails_when_it_is_built(
    session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was planned, so less of the device is planned now; the present model stays."""
    session.load(chat_model, context=512)

    def full(*_arguments: object) -> None:
        ledger = Ledger(CPU, "Memory", 1000)
        ledger.take("draft", Purpose.WEIGHTS, 600)
        ledger.take("target", Purpose.KV, 500)

    monkeypatch.setattr(engine.service.model_slot, "load", full)
    told = refusal(session, Load(chat_model, context=640))
    assert told.kind is FailureKind.OUT_OF_MEMORY
    assert told.shortage is not None
    assert (told.shortage.needed.draft, told.shortage.needed.kv) == (600, 500)
    assert told.shortage.missing == 100
    assert told.ways_out
    monkeypatch.undo()
    for way in told.ways_out:
        assert session.load(**_wishes(way.load)).load == way.load
    assert not session.of(Unloaded)


def test_help_that_fails_leaves_the_words(
    session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.load(chat_model)

    def full(*_arguments: object) -> None:
        monkeypatch.setattr(DeviceManager, "look", lambda *_: 1 / 0)
        raise OutOfMemory("Full.", "Empty it.")

    monkeypatch.setattr(engine.service.model_slot, "load", full)
    told = refusal(session, Load(chat_model, context=512))
    assert (told.cause, told.remedy, told.ways_out, told.bug) == ("Full.", "Empty it.", (), False)


def test_a_refusal_without_numbers_is_still_one() -> None:
    told = failed(OutOfMemory("Full.", "Empty it."), None, loading=True)
    assert (told.kind, told.shortage, told.ways_out) == (FailureKind.OUT_OF_MEMORY, None, ())
