"""Bounds on time that a busy machine keeps as well: the best of several attempts counts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

ALONE = FileLock(Path(tempfile.gettempdir()) / "duotail-timed.lock", is_singleton=True)
"""Held by what must not run beside its like: stopwatches, kills, windows on a screen."""


def least(measure: Callable[[], float], enough: float, attempts: int = 8) -> float:
    """The least of up to `attempts` measurements; the first one below `enough` ends them.

    What is slow by itself is slow every time, what has to share the cores now and then is not.
    """
    with ALONE:
        found = measure()
        for _ in range(attempts - 1):
            if found < enough:
                break
            found = min(found, measure())
    return found
