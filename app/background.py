"""Work beside the window: reading files, searching, exporting. Results come back in its thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal

_log = logging.getLogger(__name__)

T = TypeVar("T")


class _Courier(QObject):
    """Brings a result from the thread it was made in to the window's."""

    done = Signal(object)
    failed = Signal(object)


class _Work(QRunnable):
    def __init__(self, call: Callable[[], object], courier: _Courier) -> None:
        super().__init__()
        self._call = call
        self._courier = courier

    def run(self) -> None:
        """In a thread of the pool."""
        try:
            result = self._call()
        except Exception as error:  # noqa: BLE001 - told in the window's thread
            self._send(self._courier.failed, error)
        else:
            self._send(self._courier.done, result)

    @staticmethod
    def _send(signal: Any, value: object) -> None:  # noqa: ANN401 - a bound signal has no public type
        try:
            signal.emit(value)
        except RuntimeError:
            _log.debug("nobody waits for this result any more")


def in_background(
    owner: QObject,
    call: Callable[[], T],
    done: Callable[[T], None],
    failed: Callable[[Exception], None],
) -> None:
    """Run `call` in another thread, then `done` or `failed` in the thread of `owner`.

    Neither is called once `owner` is gone. `call` must not touch widgets.
    """
    courier = _Courier(owner)

    def finish(then: Callable[[Any], None], value: object) -> None:
        courier.deleteLater()
        then(value)

    courier.done.connect(lambda value: finish(done, value))
    courier.failed.connect(lambda error: finish(failed, error))
    QThreadPool.globalInstance().start(_Work(call, courier))
