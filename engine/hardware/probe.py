"""What this process may really use: cores and memory, container limits included."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Cores and memory available to this process, in bytes."""

    cores: int
    memory_total: int
    memory_available: int


def probe_host() -> HostFacts:
    """Ask the system; swap never counts."""
    import psutil  # the window counts cores before it needs more

    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    limit = _cgroup_number("memory.max")
    if limit is not None and limit < total:
        total = limit
        available = min(available, max(limit - _cgroup_used(), 0))
    return HostFacts(cores=available_cores(), memory_total=total, memory_available=available)


def available_cores() -> int:
    """Cores this process may run on: affinity and the container's quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, cores if quota is None else min(cores, quota))


def _cgroup_number(name: str) -> int | None:
    try:
        return int((_CGROUP / name).read_text())
    except (OSError, ValueError):  # no cgroup v2 here, or "max"
        return None


def _cgroup_used() -> int:
    """Bytes the container holds for good: files in the page cache give way when asked."""
    used = _cgroup_number("memory.current") or 0
    try:
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
        stat = {name: int(value) for name, value in map(str.split, lines)}
    except (OSError, ValueError):
        return used
    return max(used - stat.get("active_file", 0) - stat.get("inactive_file", 0), 0)


def _cgroup_quota() -> int | None:
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None
