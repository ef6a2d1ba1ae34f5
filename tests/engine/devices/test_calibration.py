"""Calibration with scripted times: what it finds, how it is called off, what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls
from scripted_device import Clock, Costs, ScriptedDevice

from engine.commands import KvType
from engine.devices.calibration import calibrate as calibration
from engine.devices.calibration.calibrate import ROWS, USUAL, calibrate, calibrate_kinds
from engine.devices.calibration.fit import least_squares
from engine.devices.calibration.small_model import WIDE
from engine.errors import Cancelled, OutOfMemory
from engine.machine.facts import CPU, Accelerator, Host, Machine
from engine.machine.speeds import LinkSpeed, Speeds

GIB = 2**30
HOST = Machine(Host(cores=4, memory_total=16 * GIB, memory_available=8 * GIB, name="Scripted"))
GPU = Accelerator("cuda:0", "GPU", memory_total=8 * GIB, memory_free=6 * GIB)
READ = 40e9


def _product(kind: str, rows: int) -> float:
    """Bound by memory up to 8 rows, then by arithmetic; 6-bit weights take a little longer."""
    return (1.2 if kind == "Q6_K" else 1.0) / 20e9 * max(1.0, rows / 8)


def _device(
    clock: Clock, name: str = "cpu", product: Callable[[str, int], float] = _product
) -> ScriptedDevice:
    return ScriptedDevice(name, clock, Costs(product))


@pytest.fixture(autouse=True)
def _read_by_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reading takes, on the clock of the device."""

    def host(device: ScriptedDevice, nbytes: int, *_: object) -> Callable[[], None]:
        return lambda: device.spend(nbytes / READ)

    monkeypatch.setattr(calibration, "host_reader", host)
    monkeypatch.setattr(calibration, "device_reader", lambda *_: lambda: None)
    link = LinkSpeed("cuda:0", 12e9, 11e9, 1e-5)
    monkeypatch.setattr(calibration, "measure_link", lambda *_: link)


def _calibrated(device: ScriptedDevice, *others: ScriptedDevice, machine: Machine = HOST) -> Speeds:
    devices = {each.name: each for each in (device, *others)}
    return calibrate(
        machine,
        progress=lambda *_: None,
        cancelled=lambda: False,
        devices=devices,  # type: ignore[arg-type]
        clock=device.clock,
    )


def _check(speeds: Speeds, device: ScriptedDevice, tolerance: float) -> None:
    found, costs = speeds.devices[device.name], device.costs
    about = pytest.approx
    assert set(found.products) == set(USUAL)
    for kind, product in found.products.items():
        assert product.rows == ROWS
        wanted = [1 / costs.product(kind, rows) for rows in ROWS]
        assert product.bytes_per_s == about(wanted, rel=tolerance)
    assert found.forward_s == about(costs.forward, rel=10 * tolerance)
    assert found.block_s == about(costs.block, rel=5 * tolerance)
    assert found.row_s == about(costs.row, rel=5 * tolerance)
    for queries in (1, 16, 128):
        cost = costs.kv_byte + queries * costs.query_byte
        assert found.attending().seconds_per_byte(queries) == about(cost, rel=10 * tolerance)
        cost = costs.kv8_byte + queries * costs.query8_byte if found.attention8 else cost
        own = found.attending(KvType.Q8)
        assert own.seconds_per_byte(queries) == about(cost, rel=10 * tolerance)
    assert (found.attention8 is not None) == (device.name == CPU)


def test_the_costs_behind_the_times_are_found() -> None:
    device = _device(Clock())
    speeds = _calibrated(device)
    _check(speeds, device, 1e-3)
    assert speeds.measured
    assert speeds.devices["cpu"].read_bytes_per_s == pytest.approx(READ)
    assert device.clock.now < 3.0


def test_small_targets_are_measured_as_few_threads_serve_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small model has speeds of its own; without them barriers of threads would count."""
    clock = Clock()
    all_threads = _device(clock)
    few = ScriptedDevice("cpu", clock, Costs(lambda *_: 1 / 26e9, forward=30e-6, block=2e-6))
    asked: list[int | None] = []

    def opened(*, threads: int | None) -> ScriptedDevice:
        asked.append(threads)
        return all_threads if threads is None else few

    monkeypatch.setattr(calibration, "CpuDevice", opened)
    monkeypatch.setattr(calibration, "threads_for", lambda nbytes: 2 if nbytes <= 2**24 else 8)
    speeds = calibrate(HOST, progress=lambda *_: None, cancelled=lambda: False, clock=clock)
    cpu = speeds.devices["cpu"]
    small = cpu.beside(8 << 20)
    assert asked == [None, 2]
    assert small.threads == 2
    assert set(small.products) == set(USUAL)
    assert small.block_s == pytest.approx(2e-6, rel=0.05)
    assert small.forward_s == pytest.approx(30e-6, rel=0.05)
    assert small.products["Q8_0"].bytes_per_s[0] == pytest.approx(26e9, rel=0.01)
    assert cpu.beside(1 << 30) is cpu
    assert cpu.block_s == pytest.approx(20e-6, rel=0.05)


def test_other_programs_disturb_little() -> None:
    device = _device(Clock())
    chance = np.random.default_rng(1)
    device.disturbed = lambda _: chance.choice([1.0, 1.5, 3.0], p=[0.85, 0.1, 0.05])
    found = _calibrated(device).devices["cpu"].products
    for kind in USUAL:
        for rows in ROWS[:4]:
            cost = _product(kind, rows)
            assert found[kind].seconds_per_byte(rows) == pytest.approx(cost, rel=0.1)


def test_a_slow_device_that_compiles_at_first_use_keeps_nobody_waiting() -> None:
    """Its models are smaller, and no time counts in which something was compiled."""
    compiled = set[tuple[str, int]]()

    def product(kind: str, rows: int) -> float:
        new = (kind, rows) not in compiled
        compiled.add((kind, rows))
        return (1.0 if rows <= 8 else rows / 8) / 100e6 * (3 if new else 1)

    device = _device(Clock(), product=product)
    found = _calibrated(device).devices["cpu"]
    for kind in USUAL:
        assert found.products[kind].bytes_per_s[0] == pytest.approx(100e6, rel=0.05)
    assert found.row_s < 0.01
    assert device.clock.now < 25


def test_fewer_rows_never_take_longer() -> None:
    """Where they seem to, the measurement was disturbed."""
    device = _device(Clock(), product=lambda _, rows: (2.0 if rows == 4 else 1.0) / 20e9)
    speeds = _calibrated(device).devices["cpu"].products["Q8_0"].bytes_per_s
    assert speeds == pytest.approx([20e9] * len(ROWS), rel=0.05)


def test_rows_that_would_take_too_long_are_left_out() -> None:
    device = _device(Clock(), product=lambda _, rows: rows / 2e9)
    product = _calibrated(device).devices["cpu"].products["Q4_0"]
    assert product.rows == (1, 2)
    assert product.seconds_per_byte(8) == pytest.approx(8 / 2e9, rel=0.01)


@pytest.mark.parametrize("slowness", [1, 30])
def test_it_is_called_off_at_any_time(slowness: int) -> None:
    clock = Clock()
    device = _device(clock, product=lambda kind, rows: slowness * _product(kind, rows))
    asked: list[float] = []

    def calibrated(at: float) -> None:
        def cancelled() -> bool:
            asked.append(clock.now)
            return clock.now >= at

        clock.now = 0
        asked.clear()
        calibrate(
            HOST,
            progress=lambda *_: None,
            cancelled=cancelled,
            devices={"cpu": device},  # type: ignore[dict-item]
            clock=clock,
        )

    calibrated(1e9)
    assert max(np.diff(asked)) < 0.3
    whole = clock.now
    for part in (0, 0.01, 0.3, 0.6, 0.99):
        with pytest.raises(Cancelled):
            calibrated(part * whole)
        assert clock.now - part * whole < 0.3


def test_progress_goes_from_nothing_to_all() -> None:
    clock = Clock()
    told: list[tuple[str, float]] = []
    calibrate(
        HOST,
        progress=lambda stage, fraction: told.append((stage, fraction)),
        cancelled=lambda: False,
        devices={"cpu": _device(clock)},  # type: ignore[dict-item]
        clock=clock,
    )
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert 0.9 < fractions[-1] <= 1
    stages = list(dict.fromkeys(stage for stage, _ in told))
    assert stages[0] == "Reading the memory of Scripted"
    assert stages[-1] == "Computing small models on Scripted"


def test_slowly_made_weights_leave_less_time_to_compute() -> None:
    clock = Clock()
    device = _device(clock)
    device.making = lambda config: 0.2 if config.hidden_size == WIDE.hidden else 0.01
    _check(_calibrated(device), device, 1e-3)
    assert clock.now < 3.3


def test_accelerators_are_measured_as_the_processor_is() -> None:
    clock = Clock()
    device = _device(clock, "cuda:0", lambda *_: 1 / 400e9)
    simulated = replace(GPU, device="simulated:0", simulated=True)
    broken = replace(GPU, unusable="no driver")
    machine = replace(HOST, accelerators=(GPU, simulated, broken))
    speeds = _calibrated(_device(clock), device, machine=machine)
    assert set(speeds.devices) == {"cpu", "cuda:0"}
    _check(speeds, device, 1e-3)
    assert speeds.links["cuda:0"].to_bytes_per_s == 12e9
    assert speeds.devices["cuda:0"].threads == 0


@pytest.mark.parametrize("trouble", [OutOfMemory("full", "free some"), RuntimeError("CUDA error")])
def test_an_accelerator_that_fails_is_left_out(trouble: Exception) -> None:
    clock = Clock()
    device = _device(clock, "cuda:0")
    device.failing = trouble
    speeds = _calibrated(_device(clock), device, machine=replace(HOST, accelerators=(GPU,)))
    assert set(speeds.devices) == {"cpu"}
    assert not speeds.links


def test_the_processor_has_to_be_measured() -> None:
    device = _device(Clock())
    device.failing = OutOfMemory("full", "free some")
    with pytest.raises(OutOfMemory):
        _calibrated(device)


def test_further_types_of_weights_are_added() -> None:
    device = _device(Clock())
    speeds = _calibrated(device)
    before = device.clock.now
    more = calibrate_kinds(
        speeds,
        ["Q5_K", "Q4_0"],
        HOST,
        cancelled=lambda: False,
        devices={"cpu": device},  # type: ignore[dict-item]
        clock=device.clock,
    )
    assert device.clock.now - before < 0.5
    products = dict(more.devices["cpu"].products)
    added = products.pop("Q5_K")
    assert added.bytes_per_s[0] == pytest.approx(20e9, rel=1e-3)
    assert added.bytes_per_s[-1] == pytest.approx(20e9 / 8, rel=1e-3)
    assert products == speeds.devices["cpu"].products


_SIZES = st.integers(-40, 40)


@given(arrays(np.int8, (6, 3), elements=_SIZES), arrays(np.int8, 6, elements=_SIZES))
def test_least_squares_without_negative_numbers(left: np.ndarray, right: np.ndarray) -> None:
    equations, wanted = left / 8, right / 8
    found = least_squares(equations, wanted)
    assert (found >= 0).all()
    missed = np.linalg.norm(equations @ found - wanted)
    assert missed <= nnls(equations, wanted)[1] * (1 + 1e-6) + 1e-6
