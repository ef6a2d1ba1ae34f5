"""Memory of our process: what the system counts of it, and that what is freed really goes back."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

_OWN = Path("/proc/self/smaps_rollup")


def own_memory() -> int | None:
    """Bytes that this process holds.

    What it shares with others counts in parts (PSS, Linux), elsewhere not at all (USS). None where
    nobody tells.
    """
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:
        return _unshared()
    found = (line.split() for line in lines if line.startswith("Pss:"))
    return next((int(kilobytes) << 10 for _, kilobytes, *_ in found), None)


def _unshared() -> int | None:
    import psutil  # the window asks for other things here before it needs it

    try:
        return int(psutil.Process().memory_full_info().uss)
    except (psutil.Error, AttributeError):
        return None


def give_memory_back() -> None:
    """Collect garbage and, where the C library keeps freed pages (glibc), hand them back."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
