"""The monitor measures this process and ends when it is closed."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

import psutil
import pytest
from recorded import record

from engine.devices import monitor
from engine.devices.monitor import AcceleratorWatch, DeviceMonitor
from engine.devices.probe import probe_host
from engine.events import DeviceSample
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.system_files import SystemFiles

PATIENCE = 240.0


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "INTERVAL_S", 0.02)


@pytest.mark.usefixtures("_often")
def test_samples_measure_this_process(tmp_path: Path) -> None:
    started = perf_counter()
    samples: SimpleQueue[DeviceSample] = SimpleQueue()
    running = DeviceMonitor(samples.put, AcceleratorWatch(SystemFiles(tmp_path)))
    try:
        first, second = (samples.get(timeout=PATIENCE) for _ in range(2))
    finally:
        running.close()
    assert started < first.at < second.at <= perf_counter()
    for sample in (first, second):
        assert sample.memory_total_bytes == probe_host().memory_total
        assert 1e6 < (sample.memory_bytes or 0) < (sample.memory_total_bytes or 0)
        assert sample.cpu_percent is not None
        assert sample.cpu_percent >= 0
        assert 0 <= (sample.system_cpu_percent or 0) <= 100
        assert sample.accelerators == ()  # nothing is made up


@pytest.mark.usefixtures("_often")
def test_a_measurement_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished(_self: psutil.Process) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "memory_info", vanished)
    samples: SimpleQueue[DeviceSample] = SimpleQueue()
    running = DeviceMonitor(samples.put)
    try:
        sample = samples.get(timeout=PATIENCE)
    finally:
        running.close()
    assert (sample.memory_bytes, sample.cpu_percent) == (None, None)
    assert sample.memory_total_bytes


def test_close_does_not_wait_for_the_next_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "INTERVAL_S", PATIENCE)
    samples: SimpleQueue[DeviceSample] = SimpleQueue()
    running = DeviceMonitor(samples.put)
    started = perf_counter()
    running.close()
    assert not running._thread.is_alive()
    assert perf_counter() - started < PATIENCE / 2
    running.close()
    assert samples.empty()


@pytest.mark.usefixtures("_often", "no_nvml")
def test_accelerators_are_in_it_and_get_their_names(tmp_path: Path) -> None:
    """What is learnt holds from the next sample on."""
    samples: SimpleQueue[DeviceSample] = SimpleQueue()
    bus = "0000:03:00.0"
    files = {"class": "0x030000", "vendor": "0x1002", "gpu_busy_percent": "83"}
    tree = {f"sys/bus/pci/devices/{bus}/{name}": text for name, text in files.items()}
    running = DeviceMonitor(samples.put, AcceleratorWatch(record(tmp_path, tree)))
    try:
        (before,) = samples.get(timeout=PATIENCE).accelerators
        known = Accelerator("cuda:0", "Radeon RX 7900 XTX", Vendor.AMD, identity=bus)
        running.learn(Machine(Host(1, 1, 1), (known,)))
        told = (samples.get(timeout=PATIENCE).accelerator for _ in count())
        named = next(one for one in told if one is not None and one.device)
    finally:
        running.close()
    assert (before.device, before.percent) == ("", 83)
    assert (named.device, named.name) == ("cuda:0", "Radeon RX 7900 XTX")
