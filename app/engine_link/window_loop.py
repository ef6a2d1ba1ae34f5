"""The event loop of asyncio in the window's thread: Qt's own, made when it is first needed.

Connections to servers live in it (`engine.remote`), so that what they tell comes in the window's
thread. Nothing else of the window is asynchronous.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.engine_link.background import hand_over

if TYPE_CHECKING:
    import asyncio

    from app.engine_link.qt_loop import QtLoop

_GOODBYE_S = 1.0

T = TypeVar("T")


class WindowLoop:
    """Runs coroutines beside whatever else the window does.

    Made, used first, and closed in the window's thread.
    """

    def __init__(self) -> None:
        self._loop: QtLoop | None = None
        self._closed = False

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop; once there is one, from any thread.

        Raises:
            RuntimeError: it was closed.
        """
        if self._closed:
            raise RuntimeError("the window closes")
        if self._loop is None:
            from app.engine_link.qt_loop import qt_loop  # most windows never need it

            self._loop = qt_loop()
            self._loop.enter()
        return self._loop

    def run(
        self,
        owner: QObject,
        work: Coroutine[Any, Any, T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> Callable[[], object]:
        """Run a coroutine, then `done` or `failed`; neither is called once `owner` is gone.

        Returns what calls it off; then neither is called either.
        """
        task = self.get().create_task(work)
        task.add_done_callback(partial(hand_over, owner, done, failed))
        return task.cancel

    def close(self) -> None:
        """End all that runs in it, and let it say so."""
        loop, self._loop, self._closed = self._loop, None, True
        if loop is None:
            return
        import asyncio

        tasks, end = asyncio.all_tasks(loop), time.monotonic() + _GOODBYE_S
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks) and time.monotonic() < end:
            QApplication.processEvents()
        loop.leave()
