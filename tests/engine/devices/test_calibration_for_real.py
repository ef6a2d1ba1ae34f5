"""One short calibration of this machine: plausible, whatever else it is doing."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from time import perf_counter

import pytest

from engine.backend.cpu import CpuDevice
from engine.devices.calibration import calibrate as calibration
from engine.devices.calibration.calibrate import calibrate, calibrate_kinds
from engine.devices.calibration.small_model import SmallShape
from engine.devices.calibration.timing import Course, device_reader, measure_link
from engine.devices.probe import probe_host
from engine.machine.facts import Accelerator, Machine
from engine.machine.speeds import DeviceSpeeds, Speeds

MIB = 2**20


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "WIDE", SmallShape(1024, 2048, 8, 2))
    for name in ("BYTES", "BYTES_ALONE"):
        monkeypatch.setattr(calibration, name, 8 * MIB)
    for name in ("READING_S", "MAKING_S", "COMPUTING_S", "KIND_S", "LINK_S"):
        monkeypatch.setattr(calibration, name, 0.02)


def _plausible(speeds: DeviceSpeeds) -> None:
    times = speeds.forward_s, speeds.block_s, speeds.row_s
    assert all(isfinite(seconds) and 0 <= seconds < 1 for seconds in times)
    assert 1e6 < speeds.read_bytes_per_s < 1e14
    for product in speeds.products.values():
        assert product.rows[0] == 1
        assert 1e6 < product.bytes_per_s[0] < 1e16
        assert product.seconds_per_byte(8) >= product.seconds_per_byte(1)
        assert list(product.bytes_per_s) == sorted(product.bytes_per_s, reverse=True)


def test_this_machine() -> None:
    device = CpuDevice()
    machine = Machine(probe_host())
    speeds = calibrate(
        machine,
        progress=lambda *_: None,
        cancelled=lambda: False,
        kinds=("Q4_0",),
        devices={"cpu": device},
    )
    assert set(speeds.devices["cpu"].products) == {"Q4_0"}
    assert speeds.devices["cpu"].threads >= 1
    _plausible(speeds.devices["cpu"])
    assert device.ledger.held == 0
    assert device.ledger.peak > 8 * MIB
    more = calibrate_kinds(speeds, ("MXFP4",), machine, cancelled=lambda: False)
    assert set(more.devices["cpu"].products) == {"Q4_0", "MXFP4"}
    _plausible(more.devices["cpu"])


@pytest.mark.release(reason="measures for seconds")
def test_without_the_native_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("calibrate", "small_model", "timing"):
        name = f"engine.devices.calibration.{module}.native_is_built"
        monkeypatch.setattr(name, lambda: False)
    speeds = calibrate(
        Machine(replace(probe_host(), name="")),
        progress=lambda *_: None,
        cancelled=lambda: False,
        kinds=("Q4_0",),
    )
    assert set(speeds.devices["cpu"].products) == {"F32"}
    _plausible(speeds.devices["cpu"])


def _on_torch(name: str, torch_name: str) -> Speeds:
    from engine.backend.accelerator.device import TorchDevice

    device = TorchDevice(torch_name)
    accelerator = Accelerator(name, "GPU", memory_total=2**30, memory_free=2**30)
    try:
        return calibrate(
            Machine(probe_host(), (accelerator,)),
            progress=lambda *_: None,
            cancelled=lambda: False,
            kinds=("Q4_0",),
            devices={name: device},
        )
    finally:
        device.close()


@pytest.mark.release(reason="measures for seconds")
def test_an_accelerator_on_torch() -> None:
    """The processor, as torch sees it, plays the accelerator."""
    speeds = _on_torch("cuda:0", "cpu")
    _plausible(speeds.devices["cuda:0"])
    link = speeds.links["cuda:0"]
    assert link.device == "cuda:0"
    assert min(link.to_bytes_per_s, link.from_bytes_per_s, link.latency_s) > 0


@pytest.mark.gpu
def test_a_real_accelerator() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no accelerator")
    speeds = _on_torch("cuda:0", "cuda:0")
    _plausible(speeds.devices["cuda:0"])
    assert 1e8 < speeds.links["cuda:0"].to_bytes_per_s < 1e12
    device_reader("cuda:0", 8 * MIB)()
    course = Course(1.0, perf_counter, lambda *_: None, lambda: False)
    assert measure_link("cuda:0", course, 8 * MIB).latency_s < 0.01
