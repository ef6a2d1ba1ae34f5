"""The limits of the control groups around this process: versions 1 and 2, and any nesting.

A process is in one group per hierarchy, and every group above it limits it as well. Where a
hierarchy is mounted, and from which of its groups on, /proc/self/mountinfo tells: in a container
that is often not the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.machine.system_files import SystemFiles


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The tightest limit in bytes, and the least that is left below any of the limits."""

    most: int
    left: int


def cpu_quota(files: SystemFiles) -> float | None:
    """Processors' worth of time that may be used; None without a limit."""
    quotas = [
        *(_quota(files.text(f"{group}/cpu.max")) for group in _groups(files, "")),
        *(
            _quota(
                f"{files.text(f'{group}/cpu.cfs_quota_us')} "
                f"{files.text(f'{group}/cpu.cfs_period_us')}"
            )
            for group in _groups(files, "cpu")
        ),
    ]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit(files: SystemFiles) -> MemoryLimit | None:
    """Return the limit on memory that may be held; None without one. Swap never counts."""
    limits: list[tuple[int, int]] = []
    for group in _groups(files, ""):
        used = _used(files, group, "memory.current", "")
        # Above `memory.high` a group is slowed down until it hardly moves: nothing to plan with.
        for name in ("memory.max", "memory.high"):
            limits += _limit(files.number(f"{group}/{name}"), used)
    for group in _groups(files, "memory"):
        used = _used(files, group, "memory.usage_in_bytes", "total_")
        limits += _limit(files.number(f"{group}/memory.limit_in_bytes"), used)
    if not limits:
        return None
    return MemoryLimit(min(most for most, _ in limits), min(left for _, left in limits))


_NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as the largest number of pages, in bytes."""


def _limit(most: int | None, used: int) -> list[tuple[int, int]]:
    return [] if most is None or most >= _NO_LIMIT else [(most, max(most - used, 0))]


def _used(files: SystemFiles, group: str, name: str, prefix: str) -> int:
    """Bytes a group holds for good: files in the page cache give way when asked."""
    stat = _pairs(files.text(f"{group}/memory.stat") or "")
    cached = sum(stat.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
    return max((files.number(f"{group}/{name}") or 0) - cached, 0)


def _pairs(text: str) -> dict[str, int]:
    try:
        return {name: int(value) for name, value in map(str.split, text.splitlines())}
    except ValueError:
        return {}


def _quota(text: str | None) -> float | None:
    """Parse a quota: "150000 100000" is one and a half; "max" and -1 are no limit."""
    try:
        quota, period = map(int, (text or "").split())
        return quota / period if quota > 0 else None
    except (ValueError, ZeroDivisionError):
        return None


def _groups(files: SystemFiles, controller: str) -> Iterator[str]:
    """Folders of the group we are in and of those above; `controller` is empty for version 2."""
    path = _own_path(files, controller)
    for root, place in _mounts(files, controller):
        # A path outside the mounted part (another namespace) leaves the mount itself.
        inside = path == root or path.startswith(root.rstrip("/") + "/")
        parts = [part for part in path[len(root) :].split("/") if part] if inside else []
        if ".." in parts:
            parts = []
        for depth in range(len(parts), -1, -1):
            yield "/".join([place.strip("/"), *parts[:depth]])


def _own_path(files: SystemFiles, controller: str) -> str:
    for line in (files.text("proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and (controller or number == "0"):
            return path
    return "/"


def _mounts(files: SystemFiles, controller: str) -> Iterator[tuple[str, str]]:
    """Yield each mounted group, and where it is mounted."""
    for line in (files.text("proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" and not controller:
            yield fields[3], fields[4]
        if kind[0] == "cgroup" and controller and controller in kind[2].split(","):
            yield fields[3], fields[4]
