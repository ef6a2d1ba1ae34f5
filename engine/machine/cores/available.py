"""How many cores this process really has. Light: the window asks before its first frame.

Threads for computing are as many as *physical* cores: decoding waits for memory and products keep
a core's arithmetic units busy, so a second hardware thread on the same core gains next to nothing
and takes the core away from the window. Slow cores count: work is claimed in small pieces, so
nobody waits long for them. DUOTAIL_THREADS overrides it.
"""

from __future__ import annotations

import os
import sys

from engine.machine.cores import cores_linux, cores_macos, cores_windows
from engine.machine.cores.cgroup import cpu_quota
from engine.machine.cores.core_counts import CoreCounts
from engine.machine.cores.system_files import LINUX, SystemFiles


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
    found = cores_windows.count() if sys.platform == "win32" else cores_macos.count()
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
    return cores_linux.count(files, cpus, kinds=kinds).within(cpu_quota(files))


def affinity() -> frozenset[int]:
    """The processors this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
