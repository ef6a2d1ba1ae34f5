"""Seconds that a device itself computes, by its own clock."""

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
        period = lib.wgpuQueueGetTimestampPeriod(device.queue._internal)  # noqa: SLF001 - no other way
        self._period_s = period * 1e-9

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
