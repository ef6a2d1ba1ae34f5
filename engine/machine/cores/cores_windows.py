"""Cores as Windows tells them: GetLogicalProcessorInformationEx."""

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass

from engine.machine.cores.core_counts import CoreCounts, count_of

_CORES = 0
"""RelationProcessorCore."""
_HEADER = struct.Struct("<II")
"""Relationship, size of the record."""
_CORE = struct.Struct("<BB20xH")
"""Flags, efficiency class, number of group masks."""
_MASK = struct.Struct("<QH6x")
"""Processors of a group, number of the group; on 64-bit Windows."""


@dataclass(frozen=True, slots=True)
class WindowsCore:
    """A core: its efficiency class (larger is faster), and its threads as a mask per group."""

    efficiency: int
    masks: tuple[tuple[int, int], ...]


def count() -> CoreCounts | None:
    """Cores this process may run on; None on other systems."""
    records = _records()
    return cores_in(parse(records), _affinity()) if records else None


def parse(records: bytes) -> list[WindowsCore]:
    """The records of processor cores, as Windows lays them out in memory."""
    cores, at = [], 0
    while at + _HEADER.size <= len(records):
        relationship, size = _HEADER.unpack_from(records, at)
        if size < _HEADER.size:
            break
        if relationship == _CORES:
            place = at + _HEADER.size
            _, efficiency, groups = _CORE.unpack_from(records, place)
            masks = _MASK.iter_unpack(records[place + _CORE.size :][: groups * _MASK.size])
            cores.append(WindowsCore(efficiency, tuple((group, mask) for mask, group in masks)))
        at += size
    return cores


def cores_in(cores: list[WindowsCore], affinity: int | None) -> CoreCounts | None:
    """Cores under an affinity mask, which covers the first group; None: no limit."""
    kept: list[tuple[int, float]] = []
    for core in cores:
        if affinity is None:
            threads = sum(mask.bit_count() for _, mask in core.masks)
        else:
            threads = sum((mask & affinity).bit_count() for group, mask in core.masks if not group)
        if threads:
            # The least class is 0; only the order counts here.
            kept.append((threads, 1.0 + core.efficiency))
    return count_of(kept) if kept else None


def _records() -> bytes:
    if sys.platform == "win32":
        ask = ctypes.windll.kernel32.GetLogicalProcessorInformationEx
        size = ctypes.c_ulong(0)
        ask(_CORES, None, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        if size.value and ask(_CORES, buffer, ctypes.byref(size)):
            return buffer.raw[: size.value]
    return b""


def _affinity() -> int | None:
    """The process's mask, unless it is the whole first group's."""
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        process, system = ctypes.c_size_t(0), ctypes.c_size_t(0)
        handle = ctypes.c_void_p(kernel.GetCurrentProcess())
        if kernel.GetProcessAffinityMask(handle, ctypes.byref(process), ctypes.byref(system)):
            return process.value if process.value not in (0, system.value) else None
    return None
