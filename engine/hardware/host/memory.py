"""Memory that this process may hold: the machine's or the container's. Swap never counts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.machine.cores.cgroup import memory_limit
from engine.machine.cores.system_files import LINUX, SystemFiles


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bytes in all, and what of them could be held now."""

    total: int
    available: int


def host_memory() -> HostMemory | None:
    """Ask the system; None where it does not tell."""
    if LINUX:
        return linux_memory(SystemFiles())
    import psutil  # Linux is asked directly

    memory = psutil.virtual_memory()
    return HostMemory(memory.total, memory.available)


def linux_memory(files: SystemFiles) -> HostMemory | None:
    """The memory of the machine, or the container, that `files` (/proc and /sys) describe."""
    told: dict[str, int] = {}
    for line in (files.text("proc/meminfo") or "").splitlines():
        name, _, size = line.partition(":")
        number = size.removesuffix("kB").strip()
        if number.isdecimal():
            told[name] = int(number) * 1024
    total = told.get("MemTotal")
    if not total:
        return None
    # Kernels before 3.14 do not say what is available.
    reclaimable = sum(told.get(name, 0) for name in ("MemFree", "Buffers", "Cached"))
    available = told.get("MemAvailable", reclaimable)
    limit = memory_limit(files)
    if limit is None:
        return HostMemory(total, min(available, total))
    total = min(total, limit.most)
    return HostMemory(total, min(available, total, limit.left))
