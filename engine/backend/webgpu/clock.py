"""Seconds that a device itself computes, by its own clock: in all, and kernel by kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import wgpu
from wgpu.backends.wgpu_native import lib

from engine.backend.webgpu.sizes import TICKS_BYTES
from engine.model.weights.readable import Floats

FEATURE = "timestamp-query"


class DeviceClock:
    """Notes when the first compute pass of a list of work begins, and when its last one ends.

    Args:
        device: a wgpu.GPUDevice that was opened with FEATURE.
    """

    def __init__(self, device: Any) -> None:  # noqa: ANN401
        use = wgpu.BufferUsage
        self._queries = device.create_query_set(type="timestamp", count=2)
        self._ticks: Any = device.create_buffer(
            size=TICKS_BYTES, usage=use.QUERY_RESOLVE | use.COPY_SRC
        )
        self._period_s = _period_s(device)

    def writes(self, *, first: bool) -> dict[str, object]:
        """Return what a compute pass notes; `first`: of its list of work."""
        noted: dict[str, object] = {"query_set": self._queries, "end_of_pass_write_index": 1}
        return noted | ({"beginning_of_pass_write_index": 0} if first else {})

    def bring(self, encoder: Any, results: Any, place: int) -> None:  # noqa: ANN401
        """Append what brings both times to a buffer that the host reads."""
        encoder.resolve_query_set(self._queries, 0, 2, self._ticks, 0)
        encoder.copy_buffer_to_buffer(self._ticks, 0, results, place, TICKS_BYTES)

    def seconds(self, read: Floats) -> float:
        """Return the seconds between the two times, as the host has read them."""
        begin, end = read.view(np.uint64)
        return float(max(int(end) - int(begin), 0) * self._period_s)


class KernelClock:
    """Notes when each dispatch begins and ends, which are compute passes of their own meanwhile.

    Args:
        device: a wgpu.GPUDevice that was opened with FEATURE.
    """

    MOST = 2048
    """Dispatches that are timed; later ones are left out."""

    def __init__(self, device: Any) -> None:  # noqa: ANN401
        self._device, self._names = device, list[str]()
        self._queries = device.create_query_set(type="timestamp", count=2 * self.MOST)

    def writes(self, name: str) -> dict[str, object] | None:
        """Return what the pass of a kernel of that name notes."""
        place = 2 * len(self._names)
        if place == 2 * self.MOST:
            return None
        self._names.append(name)
        return {
            "query_set": self._queries,
            "beginning_of_pass_write_index": place,
            "end_of_pass_write_index": place + 1,
        }

    def seconds(self) -> dict[str, float]:
        """Wait for all work, and return the seconds that kernels took, by their names."""
        if not self._names:
            return {}
        use, count = wgpu.BufferUsage, 2 * len(self._names)
        ticks = self._device.create_buffer(size=8 * count, usage=use.QUERY_RESOLVE | use.COPY_SRC)
        encoder = self._device.create_command_encoder()
        encoder.resolve_query_set(self._queries, 0, count, ticks, 0)
        self._device.queue.submit([encoder.finish()])
        read = np.frombuffer(self._device.queue.read_buffer(ticks), dtype=np.uint64)
        spent = (read[1::2] - read[::2]).astype(np.int64).clip(0) * _period_s(self._device)
        found: dict[str, float] = {}
        for name, each in zip(self._names, spent, strict=True):
            found[name] = found.get(name, 0.0) + float(each)
        return found


def _period_s(device: Any) -> float:  # noqa: ANN401
    """Seconds of a tick."""
    period = lib.wgpuQueueGetTimestampPeriod(device.queue._internal)  # noqa: SLF001 - no other way
    return float(period * 1e-9)
