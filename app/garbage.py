"""Python's garbage, collected in the window's thread and in no other.

Widgets that refer to each other are destroyed by the thread in which Python finds them. Left to
itself, Python looks in whichever thread happens to make an object, and Qt crashes or hangs where
that is another one than the window's.
"""

from __future__ import annotations

import gc
import threading

from PySide6.QtCore import QCoreApplication, QObject, Qt, QThread, QTimer

from app.engine_link.background import window_calls
from engine.machine.garbage import collect_with

_LOOK_MS = 250
_PATIENCE_S = 1.0
"""A window that closes waits for the engine, and collects for it no more."""
_YOUNG, _MIDDLE, _ALL = 700, 10, 100
"""When to look: among new objects, what has lasted once, and all; Python's own, but for the last.
With 10 it looks through everything amid a load, which stops all threads for 25 ms."""


class GarbageCollector(QObject):
    """Looks for garbage from the thread it is made in, which is the window's, until it ends."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._python_collects = gc.isenabled()
        gc.disable()
        self._call = window_calls()
        self._before = collect_with(self.collect)
        self._starting = False
        timer = QTimer(self, interval=_LOOK_MS, timerType=Qt.TimerType.CoarseTimer)
        timer.timeout.connect(self._look_again)
        timer.start()

    def begin_start(self) -> None:
        """Set aside what there is, and at every look what has come, until `end_start`.

        What a start makes stays, and collections that look through it take 30 to 60 ms each: the
        engine's modules are imported beside the window by then.
        """
        self._starting = True
        gc.freeze()

    def end_start(self) -> None:
        """Collect from now on."""
        if self._starting:
            gc.freeze()
        self._starting = False

    def _look_again(self) -> None:
        if self._starting:
            gc.freeze()
        else:
            self.look()

    @staticmethod
    def look() -> None:
        """Collect what Python would by now have collected by itself."""
        made = gc.get_count()
        for generation, most in ((2, _ALL), (1, _MIDDLE), (0, _YOUNG)):
            if made[generation] > most:
                gc.collect(generation)
                return

    def collect(self) -> None:
        """Collect everything, for any thread; where the window does not come to it, leave it."""
        if QThread.currentThread() is self.thread():
            gc.collect()
            return
        done = threading.Event()

        def collect() -> None:
            gc.collect()
            done.set()

        self._call(collect)
        done.wait(_PATIENCE_S)

    def end(self) -> None:
        """Leave garbage to whoever collected it before."""
        collect_with(self._before)
        self.deleteLater()
        if self._python_collects:
            gc.enable()


def collect_here(application: QCoreApplication) -> GarbageCollector:
    """Collect garbage in this thread for as long as the application lasts."""
    return application.findChild(GarbageCollector) or GarbageCollector(application)
