"""What a piece of work asks of a device: launches, waits, and the time of each kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.backend.device import Device
from engine.machine.facts import WEBGPU

_MOST = 25
"""Kernels told by name."""
_LAUNCHES = ("launchkernel", "graphlaunch")
_WAITS = ("eventsynchronize", "streamsynchronize", "devicesynchronize")


@dataclass(frozen=True, slots=True)
class KernelTime:
    """How often a kernel ran, and the seconds that it took together; None: not told."""

    runs: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceWorkload:
    """Work that was asked of a device.

    Attributes:
        launches: times that the host handed over work: lists of WebGPU's, kernels or recordings of
            CUDA's.
        waits: times that the host waited.
        runs: kernels that ran.
        kernels: by name, the costliest first.
        read: bytes of weights that products were bound to, where the device tells.
    """

    launches: int
    waits: int
    runs: int
    kernels: dict[str, KernelTime] = field(default_factory=dict)
    read: int | None = None


def workload(device: Device, work: Callable[[], object]) -> DeviceWorkload:
    """Do a piece of work, and return what it asked of a device that WebGPU or torch drives."""
    return _of_webgpu(device, work) if device.name.startswith(WEBGPU) else _of_torch(work)


def _of_webgpu(device: Device, work: Callable[[], object]) -> DeviceWorkload:
    from engine.backend.webgpu.device import WebGpuDevice

    if not isinstance(device, WebGpuDevice) or device.gpu is None:
        raise TypeError("no device of WebGPU")
    counts = device.gpu.counts
    before = dict(counts.dispatches), counts.weights, counts.submits, counts.waits
    with device.gpu.timed_kernels() as clock:
        work()
        seconds = {} if clock is None else clock.seconds()
    ran = {name: count - before[0].get(name, 0) for name, count in counts.dispatches.items()}
    kernels = {name: KernelTime(runs, seconds.get(name)) for name, runs in ran.items() if runs}
    return DeviceWorkload(
        counts.submits - before[2],
        counts.waits - before[3],
        sum(each.runs for each in kernels.values()),
        _costliest(kernels),
        counts.weights - before[1],
    )


def _of_torch(work: Callable[[], object]) -> DeviceWorkload:
    import torch  # imported where torch drives the device
    from torch.profiler import ProfilerActivity, profile

    on_card = torch.cuda.is_available()
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_card else [])]
    with profile(activities=kinds) as seen:
        work()
    launches = waits = runs = 0
    kernels: dict[str, KernelTime] = {}
    for event in seen.key_averages():
        name = str(event.key).lower()
        if any(part in name for part in _LAUNCHES):
            launches += event.count
        elif any(part in name for part in _WAITS):
            waits += event.count
        spent = _own_seconds(event, on_card=on_card)
        if spent:
            runs += event.count
            kernels[str(event.key)[:100]] = KernelTime(event.count, spent)
    return DeviceWorkload(launches, waits, runs, _costliest(kernels))


def _costliest(kernels: dict[str, KernelTime]) -> dict[str, KernelTime]:
    best = sorted(kernels.items(), key=lambda item: (-(item[1].seconds or 0.0), -item[1].runs))
    return dict(best[:_MOST])


def _own_seconds(event: Any, *, on_card: bool) -> float:  # noqa: ANN401 - torch gives them no type
    """Seconds that a kernel ran on the card; without one, that torch computed."""
    if not on_card:
        return float(event.self_cpu_time_total) * 1e-6
    if event.device_type.name != "CUDA":
        return 0.0
    return float(event.self_device_time_total) * 1e-6
