"""Python's garbage, collected at once where memory has to be free again.

A program with a window says how: what belongs to it may only be destroyed in its own thread.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

_collect: Callable[[], object] = gc.collect


def collect_garbage() -> None:
    """Look through everything for garbage, now; in any thread."""
    _collect()


def collect_with(collect: Callable[[], object]) -> Callable[[], object]:
    """Have garbage collected by `collect` from now on; return what did it before."""
    global _collect
    before, _collect = _collect, collect
    return before
