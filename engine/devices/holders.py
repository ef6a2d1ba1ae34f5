"""Who else holds memory: other programs by name.

Bounded work and never an error: where nobody tells, nobody is named.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Mapping
from time import perf_counter

import psutil

from engine.language import tr
from engine.machine.memory import Holder

MOST = 3
"""Most programs that are named."""
_WORTH_NAMING = 100 << 20
_LONGEST_S = 0.3
"""Most seconds to look through the processes of the PC."""


def holders_on_host() -> tuple[Holder, ...]:
    """Return the programs with the most memory of their own, processes of one name together."""
    own, ends = os.getpid(), perf_counter() + _LONGEST_S
    sums: dict[str, int] = defaultdict(int)
    largest: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for process in psutil.process_iter():
            if perf_counter() > ends:
                break
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid == own:
                    continue
                used = process.memory_info()
                nbytes, name = used.rss - getattr(used, "shared", 0), process.name()
                sums[name] += nbytes
                largest[name] = max(largest.get(name, (0, 0)), (nbytes, process.pid))
    worth = (name for name in sums if name and sums[name] >= _WORTH_NAMING)
    names = sorted(worth, key=lambda name: -sums[name])[:MOST]
    return tuple(Holder(name, largest[name][1], sums[name]) for name in names)


def named(processes: Mapping[int, int | None]) -> tuple[Holder, ...]:
    """Return the largest processes from bytes by id, without ours and those that are gone."""
    found: list[Holder] = []
    for pid, nbytes in sorted(processes.items(), key=lambda each: -(each[1] or 0)):
        with contextlib.suppress(psutil.Error, OSError):
            if pid != os.getpid() and len(found) < MOST:
                found.append(Holder(psutil.Process(pid).name(), pid, nbytes))
    return tuple(found)


def simulated_holder(nbytes: int) -> tuple[Holder, ...]:
    """Return the simulated holder of memory that was taken from a simulated accelerator."""
    return (Holder(tr("simulated other programs"), 0, nbytes),) if nbytes > 0 else ()
