"""The thread that talks to MCP servers, by asyncio; it starts when it is first needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from PySide6.QtCore import QObject

from app.engine_link.background import expect_in_window
from app.tools.entry import Cancel

_GOODBYE_S = 6.0

T = TypeVar("T")


class ToolThread:
    """Runs coroutines beside the window. Made, used and closed in the window's thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(
        self,
        owner: QObject,
        work: Coroutine[Any, Any, T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> Cancel:
        """Run a coroutine, then `done` or `failed` in the window's thread.

        Neither is called once `owner` is gone. Returns what calls it off; then neither is called.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        future.add_done_callback(expect_in_window(owner, done, failed))
        return future.cancel

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(loop,), name="tools", daemon=True)
            self._thread.start()
        return self._loop

    def close(self, goodbye: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End all that runs, in good order as far as that goes quickly.

        Args:
            goodbye: makes what ends all of it.
        """
        loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        ended = asyncio.run_coroutine_threadsafe(goodbye(), loop)
        try:
            ended.result(_GOODBYE_S)
        except (TimeoutError, CancelledError):
            pass
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_GOODBYE_S)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
