"""The monitor measures this process and ends when it is closed."""

from __future__ import annotations

from queue import SimpleQueue
from time import perf_counter

import psutil
import pytest

from engine.events import DeviceSample
from engine.hardware import monitor
from engine.hardware.host import probe_host
from engine.hardware.monitor import DeviceMonitor

PATIENCE = 60.0


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "INTERVAL_S", 0.02)


@pytest.mark.usefixtures("_often")
def test_samples_measure_this_process() -> None:
    started = perf_counter()
    samples: SimpleQueue[DeviceSample] = SimpleQueue()
    running = DeviceMonitor(samples.put)
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
