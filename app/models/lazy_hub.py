"""The hub, made when it is first needed, by whichever thread needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.models.hub import Hub, HubMaker


class LazyHub:
    """Makes the hub once; what it says goes to all listeners, in the thread it is said in."""

    def __init__(self, make: HubMaker) -> None:
        self._make = make
        self._gate = threading.Lock()
        self._made: Hub | None = None
        self._closed = False
        self.listener: Callable[[object], object] = _nobody
        """Told everything that the hub says."""

    def __call__(self) -> Hub:
        """The hub. May take a while, and is for threads beside the window."""
        with self._gate:
            if self._made is None:
                self._made = self._make(self._hear)
            return self._made

    def close(self) -> None:
        """Close it, if it was ever made."""
        self._closed = True
        with self._gate:
            if self._made is not None:
                self._made.questions.close()
                self._made.queue.close()

    def _hear(self, message: object) -> None:
        if not self._closed:
            self.listener(message)


def _nobody(_message: object) -> None:
    """Ignore a message: there is no listener yet."""
