"""What other programs take of the CPU while something is measured."""

from __future__ import annotations

from time import perf_counter

import psutil

_SHORTEST_S = 0.2
"""Systems count processor time in hundredths of a second: less tells nothing."""


class CpuShare:
    """Shares of the CPU from the moment on in which it is made."""

    def __init__(self) -> None:
        self._began = _readings()

    def of_others(self) -> float | None:
        """Return percent of all cores in other programs' hands; None where that is not known.

        What a host takes from its virtual machine counts as well: it is not ours either.
        """
        cores, began, now = psutil.cpu_count(), self._began, _readings()
        if began is None or now is None or not cores or now[0] - began[0] < _SHORTEST_S:
            return None
        at, idle, ours = (later - earlier for earlier, later in zip(began, now, strict=True))
        return 100 * min(max(1 - (idle + ours) / (at * cores), 0.0), 1.0)


def _readings() -> tuple[float, float, float] | None:
    """The time now, and seconds of all cores: with nothing to do, and spent by this process."""
    try:
        system, own = psutil.cpu_times(), psutil.Process().cpu_times()
    except (psutil.Error, OSError):
        return None
    return perf_counter(), system.idle + getattr(system, "iowait", 0.0), own.user + own.system
