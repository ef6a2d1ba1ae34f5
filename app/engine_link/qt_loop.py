"""The event loop of qasync on a Qt loop that somebody else runs."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import qasync  # takes the Qt that is imported already

_THREADS = 2


class QtLoop(qasync.QEventLoop):  # type: ignore[misc]  # it has no types
    """Runs in the window's thread between `enter` and `leave`, on whatever loop Qt runs there.

    There is one, for ever: what belongs to a loop that is garbage may be collected in another
    thread, and parts of Qt that are destroyed there crash the process.
    """

    def __init__(self) -> None:
        super().__init__(already_running=True)
        self.set_default_executor(ThreadPoolExecutor(_THREADS, "server-connection"))
        self.set_exception_handler(_report)
        self._hooks = sys.get_asyncgen_hooks()

    def enter(self) -> None:
        """Be the loop of this thread."""
        asyncio._set_running_loop(self)  # noqa: SLF001 - for those who write loops
        self._hooks = sys.get_asyncgen_hooks()
        # As a loop that runs by itself does: generators that are left in the middle are closed.
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)

    def leave(self) -> None:
        """Leave this thread without one. Its own `stop` would end Qt's loop as well."""
        sys.set_asyncgen_hooks(*self._hooks)
        asyncio._set_running_loop(None)  # noqa: SLF001


@cache
def qt_loop() -> QtLoop:
    """Return the one loop."""
    return QtLoop()


def _report(_loop: asyncio.AbstractEventLoop, trouble: dict[str, object]) -> None:
    """Treat what nobody has caught like every other mistake in the window's thread."""
    error = trouble.get("exception")
    if isinstance(error, BaseException):
        sys.excepthook(type(error), error, error.__traceback__)
