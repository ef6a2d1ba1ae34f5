"""Work beside the window that is done in the order it was asked for, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject

from app.engine_link.background import in_background


class InOrder(QObject):
    """A queue of calls; the next one begins when the last one is over."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def do(
        self,
        call: Callable[[], object],
        done: Callable[[Any], None] = lambda _: None,
        failed: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """Call it in another thread; then one of the others in the thread of this object."""

        def start() -> None:
            in_background(self, call, lambda value: self._over(done, value), give_up)

        def give_up(error: Exception) -> None:
            self._over(failed, error)

        self._waiting.append(start)
        if not self._busy:
            self._next()

    def _over(self, then: Callable[[Any], None], value: object) -> None:
        try:
            then(value)
        finally:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._waiting.popleft()()
