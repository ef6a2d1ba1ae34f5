"""What is known of this machine's speeds: kept, declared, measured when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from folder_models import FOLDER_TARGET

from engine.backend.webgpu import self_check
from engine.commands import Load
from engine.devices.calibration import calibrate as calibration
from engine.devices.kept_measurements import KeptSpeeds
from engine.devices.probe import probe_host
from engine.errors import Cancelled
from engine.loading import devices
from engine.loading.devices import DeviceManager
from engine.loading.planned_load import plan_load
from engine.machine.cores import default_threads
from engine.machine.facts import Accelerator, Machine, Vendor
from engine.machine.sandbox import Sandbox
from engine.machine.speeds import DeviceSpeeds, ProductSpeed, Speeds

GIB = 2**30
PRODUCT = ProductSpeed((1,), (2e10,))


def _nothing(*_: object) -> None:
    pass


def _never() -> bool:
    return False


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Speeds:
    """What every calibration finds."""
    found = Speeds({"cpu": DeviceSpeeds("cpu", 3e10, {"Q4_0": PRODUCT})}, {}, measured=True)
    monkeypatch.setattr(calibration, "calibrate", lambda *_, **__: found)
    return found


def test_what_was_measured_is_known_from_then_on(measured: Speeds) -> None:
    manager = DeviceManager()
    assert manager.speeds(manager.look()) == Speeds({})
    assert manager.measure(_nothing, _never) == measured
    again = DeviceManager()
    assert again.speeds(again.look()) == measured


def test_cards_that_webgpu_was_not_tried_on_are_not_measured_yet(
    measured: Speeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking starts no process; measuring does, and its result stays until a driver changes."""
    card = Accelerator("", "Radeon RX 6600", Vendor.AMD, 8 * GIB, 7 * GIB, unusable="no torch")
    seen = [Machine(probe_host(), (card,))]
    tried: list[str] = []
    adapter = {"name": card.name, "vendor_id": 0x1002, "kind": "DiscreteGPU", "driver": "Vulkan 7"}

    def answer(_: Sandbox, function: Callable[..., object], *__: int, **___: object) -> object:
        tried.append(function.__name__)
        return [adapter] if function is self_check.adapter_facts else ""

    monkeypatch.setattr(devices, "probe_machine", lambda: seen[0])
    monkeypatch.setattr(devices, "is_installed", lambda: True)
    monkeypatch.setattr(Sandbox, "ask", answer)
    KeptSpeeds().keep(seen[0], default_threads(), measured)
    manager = DeviceManager()
    machine = manager.look()
    assert (manager.speeds(machine).measured, machine.usable, tried) == (False, (), [])
    manager.measure(_nothing, _never)
    assert tried == ["adapter_facts", "wrong_numbers"]
    before, machine = machine, manager.look()
    assert not manager.speeds(before).measured, "what a look found is its machine's"
    assert manager.speeds(machine) == measured
    assert [found.device for found in machine.usable] == ["webgpu:0"]
    seen[0] = replace(seen[0], accelerators=(replace(card, driver="of another version"),))
    machine = manager.look()
    assert (manager.speeds(machine).measured, machine.usable) == (False, ())
    assert len(tried) == 2


def test_other_threads_are_another_machine(
    measured: Speeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeviceManager().measure(_nothing, _never)
    monkeypatch.setenv("DUOTAIL_THREADS", str(default_threads() + 1))
    manager = DeviceManager()
    assert manager.speeds(manager.look()) == Speeds({})
    manager.measure(_nothing, _never)
    assert manager.speeds(manager.look()) == measured


def test_what_a_simulated_accelerator_declares_is_not_kept(measured: Speeds) -> None:
    manager = DeviceManager()
    simulated = manager.look(4 * GIB)
    declared = manager.speeds(simulated)
    assert set(declared.devices) == {"simulated:0"}
    assert not declared.measured
    both = manager.measure_all(simulated, _nothing, _never)
    assert set(both.devices) == {"cpu", "simulated:0"}
    assert set(both.links) == {"simulated:0"}
    assert both.measured
    assert DeviceManager().speeds(simulated) == both
    if not manager.look().accelerators:
        assert DeviceManager().speeds(manager.look()) == measured


def test_nothing_stays_of_what_was_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def calibrate(*_: object, **__: object) -> Speeds:
        raise Cancelled

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    manager = DeviceManager()
    with pytest.raises(Cancelled):
        manager.measure(_nothing, _never)
    assert manager.speeds(manager.look()) == Speeds({})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The types of weights that were measured on demand."""
    asked: list[Sequence[str]] = []

    def calibrate_kinds(
        speeds: Speeds,
        kinds: Sequence[str],
        _: Machine,
        *,
        cancelled: Callable[[], bool],
        **__: int,
    ) -> Speeds:
        assert not cancelled()
        asked.append(kinds)
        cpu = speeds.devices["cpu"]
        products = {**cpu.products, **dict.fromkeys(kinds, PRODUCT)}
        return replace(speeds, devices={"cpu": replace(cpu, products=products)})

    monkeypatch.setattr(calibration, "calibrate_kinds", calibrate_kinds)
    return asked


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("simulated", [None, GIB])
def test_unusual_weights_are_measured_when_they_come(
    asked: list[Sequence[str]], simulated: int | None
) -> None:
    manager = DeviceManager()
    machine = manager.look(simulated)
    facts = plan_load(Load(FOLDER_TARGET), machine).facts
    assert set(facts[0].footprint.main_kinds) == {"Q8_0"}
    unknown = Speeds({})
    assert manager.complete(machine, unknown, facts) is unknown
    speeds = manager.measure_all(machine, _nothing, _never)
    complete = manager.complete(machine, speeds, facts)
    assert asked == [["Q8_0"]]
    assert set(complete.devices["cpu"].products) == {"Q4_0", "Q8_0"}
    assert DeviceManager().speeds(machine) == complete
    assert manager.complete(machine, complete, facts) is complete
    assert len(asked) == 1
