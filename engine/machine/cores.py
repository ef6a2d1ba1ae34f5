"""How many cores this process really has. Light: the window asks before its first frame.

Threads for computing are as many as *physical* cores: decoding waits for memory and products keep
a core's arithmetic units busy, so a second hardware thread on the same core gains next to nothing
and takes the core away from the window. Slow cores count: work is claimed in small pieces, so
nobody waits long for them. DUOTAIL_THREADS overrides it.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.machine.cgroup import cpu_quota
from engine.machine.system_files import LINUX, SystemFiles, numbers_listed, sysctl_number

_CPUS = "sys/devices/system/cpu"
_FAST = 0.8
"""A core is fast if it has so much of the best one's rank. Equal cores differ by a few percent."""
_CORES = 0
"""RelationProcessorCore."""
_HEADER = struct.Struct("<II")
"""Relationship, size of the record."""
_CORE = struct.Struct("<BB20xH")
"""Flags, efficiency class, number of group masks."""
_MASK = struct.Struct("<QH6x")
"""Processors of a group, number of the group; on 64-bit Windows."""


@dataclass(frozen=True, slots=True)
class CoreCounts:
    """Cores that a process may use.

    Attributes:
        physical: cores.
        threads: hardware threads; more than `physical` with hyper-threads.
        fast: performance cores among `physical`, where there are two kinds.
        guessed: the system does not say which threads share a core; each was counted as one.
    """

    physical: int
    threads: int
    fast: int | None = None
    guessed: bool = False

    def within(self, quota: float | None) -> CoreCounts:
        """Limit counts to so many processors' worth of time; a part of one is worth a thread.

        With a quota of 1.5 two threads get 1.5 cores' time, one thread would get 1.
        """
        if quota is None:
            return self
        most = max(math.ceil(quota), 1)
        return replace(
            self,
            physical=min(self.physical, most),
            threads=min(self.threads, most),
            fast=None if self.fast is None else min(self.fast, most),
        )


def available_cores() -> int:
    """Physical cores that this process may run on: affinity and the container's quota."""
    return count_cores().physical


def available_threads() -> int:
    """Hardware threads that this process may run on, likewise."""
    return count_cores().threads


def count_cores() -> CoreCounts:
    """The cores of this machine that this process may use."""
    if LINUX:
        return linux_cores(SystemFiles(), affinity())
    found = _windows_count() if sys.platform == "win32" else _macos_count()
    if found is not None:
        return found
    threads = os.cpu_count() or 1
    return CoreCounts(threads, threads)


def linux_cores(files: SystemFiles, cpus: frozenset[int], *, kinds: bool = False) -> CoreCounts:
    """Cores that `files` describe, for a process that may run on `cpus`.

    Args:
        files: /proc and /sys.
        cpus: the affinity mask.
        kinds: whether to look for fast and slow cores too, which takes longer.
    """
    cores = _from_sysfs(files, cpus) or _from_cpuinfo(files, cpus)
    if cores is None:
        found = CoreCounts(max(len(cpus), 1), max(len(cpus), 1), guessed=True)
    elif kinds:
        ranks = _ranks(files, cores)
        found = _count([(len(core), rank) for core, rank in zip(cores, ranks, strict=True)])
    else:
        found = CoreCounts(max(len(cores), 1), max(len(cpus), 1))
    return found.within(cpu_quota(files))


def affinity() -> frozenset[int]:
    """The processors this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _count(cores: list[tuple[int, float]]) -> CoreCounts:
    """Count cores from each one's number of threads and rank (any unit, larger is faster)."""
    best = max((rank for _, rank in cores), default=0.0)
    fast = sum(rank >= _FAST * best for _, rank in cores)
    return CoreCounts(
        physical=max(len(cores), 1),
        threads=max(sum(threads for threads, _ in cores), 1),
        fast=fast if fast < len(cores) else None,
    )


def processors(files: SystemFiles) -> list[Mapping[str, str]]:
    """The paragraphs of /proc/cpuinfo."""
    text = files.text("proc/cpuinfo") or ""
    return [
        {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in paragraph.splitlines())
        }
        for paragraph in text.split("\n\n")
    ]


def _from_sysfs(files: SystemFiles, cpus: frozenset[int]) -> list[frozenset[int]] | None:
    cores: list[frozenset[int]] = []
    counted: set[int] = set()
    for cpu in sorted(cpus):
        if cpu in counted:
            continue
        topology = f"{_CPUS}/cpu{cpu}/topology"
        text = files.text(f"{topology}/core_cpus_list")
        if text is None:  # kernels before 5.3
            text = files.text(f"{topology}/thread_siblings_list")
        if text is None:
            return None
        core = numbers_listed(text) & cpus | {cpu}
        counted |= core
        cores.append(core)
    return cores


def _from_cpuinfo(files: SystemFiles, cpus: frozenset[int]) -> list[frozenset[int]] | None:
    cores: dict[tuple[str, str], set[int]] = {}
    for processor in processors(files):
        number = processor.get("processor", "")
        if not number.isdecimal() or int(number) not in cpus:
            continue
        if not {"physical id", "core id"} <= processor.keys():
            return None
        place = (processor["physical id"], processor["core id"])
        cores.setdefault(place, set()).add(int(number))
    return [frozenset(core) for core in cores.values()] or None


def _ranks(files: SystemFiles, cores: list[frozenset[int]]) -> list[float]:
    """Rank cores by speed; all the same where the system gives no hint."""
    slow = numbers_listed(files.text("sys/devices/cpu_atom/cpus") or "")
    if slow:  # Intel names its two kinds
        return [0.0 if core <= slow else 1.0 for core in cores]
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        told = [files.number(f"{_CPUS}/cpu{min(core)}/{name}") for core in cores]
        ranks = [float(rank) for rank in told if rank]
        if len(ranks) == len(cores) and len(set(ranks)) > 1:
            return ranks
    return [1.0] * len(cores)


def _macos_count() -> CoreCounts | None:
    """Return the cores of this Mac; macOS binds no process to some of them."""
    physical, threads = sysctl_number("hw.physicalcpu"), sysctl_number("hw.logicalcpu")
    if not physical or not threads:
        return None
    kinds = sysctl_number("hw.nperflevels") or 1
    fast = sysctl_number("hw.perflevel0.physicalcpu") if kinds > 1 else None
    return CoreCounts(physical, threads, fast)


@dataclass(frozen=True, slots=True)
class WindowsCore:
    """A core: its efficiency class (larger is faster), and its threads as a mask per group."""

    efficiency: int
    masks: tuple[tuple[int, int], ...]


def _windows_count() -> CoreCounts | None:
    """Return the cores that this process may run on by GetLogicalProcessorInformationEx."""
    records = _windows_records()
    return windows_cores(parse_cores(records), _windows_affinity()) if records else None


def parse_cores(records: bytes) -> list[WindowsCore]:
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


def windows_cores(cores: list[WindowsCore], affinity: int | None) -> CoreCounts | None:
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
    return _count(kept) if kept else None


def _windows_records() -> bytes:
    if sys.platform == "win32":
        ask = ctypes.windll.kernel32.GetLogicalProcessorInformationEx
        size = ctypes.c_ulong(0)
        ask(_CORES, None, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        if size.value and ask(_CORES, buffer, ctypes.byref(size)):
            return buffer.raw[: size.value]
    return b""


def _windows_affinity() -> int | None:
    """The process's mask, unless it is the whole first group's."""
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        process, system = ctypes.c_size_t(0), ctypes.c_size_t(0)
        handle = ctypes.c_void_p(kernel.GetCurrentProcess())
        if kernel.GetProcessAffinityMask(handle, ctypes.byref(process), ctypes.byref(system)):
            return process.value if process.value not in (0, system.value) else None
    return None


def default_threads() -> int:
    """Return the threads that DUOTAIL_THREADS sets, else one per available physical core."""
    return chosen_threads() or available_cores()


def chosen_threads() -> int:
    """Return the threads that DUOTAIL_THREADS sets; 0 where it sets none."""
    chosen = os.environ.get("DUOTAIL_THREADS", "")
    return int(chosen) if chosen.isdecimal() else 0
