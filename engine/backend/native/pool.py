"""The threads that run native calls, and the flag that cancels one."""

from __future__ import annotations

import ctypes as c
import weakref
from threading import Lock
from weakref import WeakValueDictionary

from engine.backend.native.library import library
from engine.machine.cores import default_threads


class ThreadPool:
    """Native worker threads; the calling thread is one of them.

    Freed with its last user; at the end of the process threads may still compute, so the system
    takes it then.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.handle: int = library().dt_pool_new(threads)
        if not self.handle:
            raise MemoryError("no thread pool")
        weakref.finalize(self, library().dt_pool_free, self.handle).atexit = False


_pools: WeakValueDictionary[int, ThreadPool] = WeakValueDictionary()
_looking = Lock()


def shared_pool(threads: int | None = None) -> ThreadPool:
    """Return the one pool of so many threads, which ends with its last user.

    None: `default_threads`.
    """
    count = threads or default_threads()
    with _looking:
        pool = _pools.get(count)
        if pool is None:
            pool = _pools[count] = ThreadPool(count)
    return pool


class CancelFlag:
    """A number that forwards look at between blocks: once it is set, they end there."""

    __slots__ = ("_value", "address")

    def __init__(self) -> None:
        self._value = c.c_int32(0)
        self.address = c.addressof(self._value)
        """Address of the value; valid as long as this object lives."""

    def __call__(self) -> bool:
        """Tell whether it is set."""
        return bool(self)

    def __bool__(self) -> bool:
        return bool(self._value.value)

    def set(self) -> None:
        """Give up the forward that is under way, and all that follow."""
        self._value.value = 1

    def clear(self) -> None:
        """Allow the forwards that come next to run."""
        self._value.value = 0
