"""The thread pool that native segments share."""

from __future__ import annotations

import os
import weakref
from functools import cache

from engine.backend.native.library import library
from engine.machine.cores import available_cores


class ThreadPool:
    """Native worker threads; the calling thread is one of them. Freed with its last user."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.handle: int = library().dt_pool_new(threads)
        if not self.handle:
            raise MemoryError("no thread pool")
        weakref.finalize(self, library().dt_pool_free, self.handle)


@cache
def shared_pool(threads: int | None = None) -> ThreadPool:
    """Return the one pool for target and draft; None: `default_threads`."""
    return ThreadPool(threads) if threads else shared_pool(default_threads())


def default_threads() -> int:
    """Return the threads that DUOTAIL_THREADS sets, else one per available physical core."""
    return chosen_threads() or available_cores()


def chosen_threads() -> int:
    """Return the threads that DUOTAIL_THREADS sets; 0 where it sets none."""
    chosen = os.environ.get("DUOTAIL_THREADS", "")
    return int(chosen) if chosen.isdecimal() else 0
