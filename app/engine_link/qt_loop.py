"""The event loop of qasync on a Qt loop that somebody else runs."""

from __future__ import annotations

import asyncio
import sys

import qasync  # takes the Qt that is imported already


class QtLoop(qasync.QEventLoop):  # type: ignore[misc] - it has no types
    """Lives as long as it is needed; Qt's loop, the window's or a dialog's, goes on without it."""

    def __init__(self) -> None:
        self._lives = True
        super().__init__(already_running=True)
        self.set_exception_handler(_report)
        self._hooks = sys.get_asyncgen_hooks()
        # As a loop that runs by itself does: generators that are left in the middle are closed.
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)

    def is_running(self) -> bool:
        """Tell whether it was not closed yet."""
        return self._lives

    def close(self) -> None:
        """End it. Its own `stop` would end Qt's loop as well."""
        self._lives = False
        sys.set_asyncgen_hooks(*self._hooks)
        asyncio._set_running_loop(None)  # noqa: SLF001 - for those who write loops
        super().close()


def _report(_loop: asyncio.AbstractEventLoop, trouble: dict[str, object]) -> None:
    """Treat what nobody has caught like every other mistake in the window's thread."""
    error = trouble.get("exception")
    if isinstance(error, BaseException):
        sys.excepthook(type(error), error, error.__traceback__)
