"""Speeds of an adapter come from a process of its own: a driver that fails takes nothing along."""

from __future__ import annotations

from types import FunctionType

import bad_drivers
import pytest

from engine.backend.webgpu.adapters import adapters
from engine.devices.calibration import calibrate as calibration
from engine.devices.calibration.calibrate import adapter_kinds, calibrate, calibrate_kinds
from engine.devices.calibration.small_model import SmallShape
from engine.devices.probe import probe_host
from engine.errors import Cancelled
from engine.machine.facts import Accelerator, Machine, Vendor
from engine.machine.sandbox_process import SandboxLimits
from engine.machine.speeds import DeviceSpeeds, ProductSpeed, Speeds
from engine.typed_json import decoded, encoded

MIB = 2**20
MACHINE = Machine(
    probe_host(), (Accelerator("webgpu:0", "A card", Vendor.AMD, 64 * MIB, 64 * MIB),)
)
KNOWN = DeviceSpeeds("webgpu:0", 1e10, {"Q4_0": ProductSpeed((1,), (1e10,))})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "WIDE", SmallShape(512, 1024, 8, 2))
    monkeypatch.setattr(calibration, "_APART", SandboxLimits(60, None))
    for name in ("BYTES", "BYTES_ALONE"):
        monkeypatch.setattr(calibration, name, MIB)
    for name in ("READING_S", "MAKING_S", "COMPUTING_S", "KIND_S", "LINK_S", "SMALL_S"):
        monkeypatch.setattr(calibration, name, 0.01)


def measured() -> Speeds:
    return calibrate(MACHINE, progress=lambda *_: None, cancelled=lambda: False, kinds=("Q4_0",))


def test_what_the_process_tells_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "adapter_speeds", bad_drivers.speeds)
    speeds = measured()
    assert speeds.devices["webgpu:0"].products["Q4_0"].bytes_per_s == (5e9,)
    assert speeds.links["webgpu:0"].to_bytes_per_s == 7e9


@pytest.mark.parametrize("bad", [bad_drivers.crashes, bad_drivers.hangs, bad_drivers.raises])
def test_a_card_whose_process_fails_is_left_out(
    bad: FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bad is bad_drivers.hangs:
        monkeypatch.setattr(calibration, "_APART", SandboxLimits(1, None, patience=1))
    monkeypatch.setattr(calibration, "adapter_speeds", bad)
    monkeypatch.setattr(calibration, "adapter_kinds", bad)
    speeds = measured()
    assert set(speeds.devices) == {"cpu"}
    known = Speeds({"webgpu:0": KNOWN})
    more = calibrate_kinds(known, ("Q8_0",), MACHINE, cancelled=lambda: False)
    assert more == known


def test_it_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = list[str]()
    monkeypatch.setattr(calibration, "adapter_speeds", bad_drivers.hangs)
    with pytest.raises(Cancelled):
        calibrate(
            MACHINE,
            progress=lambda stage, _: stages.append(stage),
            cancelled=lambda: stages.count("Computing small models on A card") > 3,
            kinds=("Q4_0",),
        )


@pytest.mark.skipif(not adapters(), reason="no WebGPU adapter here")
def test_types_of_weights_on_a_real_adapter() -> None:
    told = adapter_kinds("webgpu:0", "An adapter", 64 * MIB, ["Q8_0"], encoded(KNOWN))
    (found,) = decoded(Speeds, told, "speeds").devices.values()
    assert set(found.products) == {"Q4_0", "Q8_0"}
    assert found.products["Q8_0"].bytes_per_s[0] > 0
