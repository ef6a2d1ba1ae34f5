"""Work beside the window: reading files, searching, exporting. Results come back in its thread."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any, Protocol, TypeVar, cast

from PySide6.QtCore import QObject, QRunnable, QThreadPool
from shiboken6 import isValid

from app.signals import TypedSignal
from engine.machine.cores import available_cores

_log = logging.getLogger(__name__)

T = TypeVar("T")
Told_co = TypeVar("Told_co", covariant=True)
_Outcome = tuple[object, Exception | None]
"""The result of a call, or else its error."""
_LONG_AT_ONCE, _SHORT_AT_ONCE = 4, 4
"""Threads; most of them wait for a disk or another process."""


class _Courier(QObject):
    """Brings results from the threads they were made in to the window's.

    There is one, for ever: whatever belongs to a part of the window can be destroyed while another
    thread sends through it, and that crashes the process. What takes a result stays here until
    then, as it refers to widgets: the thread that lets go of them last destroys them.
    """

    arrived = TypedSignal[int]()

    def __init__(self) -> None:
        super().__init__()
        self._expected: dict[int, Callable[..., None]] = {}
        self._numbers = count()
        self.arrived.connect(self._hand_over)

    def expect(self, take: Callable[[T], None]) -> Callable[[T], None]:
        """Return what brings one result to `take`, from any thread."""
        number = next(self._numbers)
        self._expected[number] = take
        return partial(self._bring, number)

    def _bring(self, number: int, result: object) -> None:
        self._expected[number] = partial(self._expected[number], result)
        try:
            self.arrived.emit(number)
        except RuntimeError:
            _log.debug("the window has gone, and nobody waits for this result")

    def _hand_over(self, number: int) -> None:
        """Call what expects the result, in the window's thread."""
        self._expected.pop(number)()


@cache
def _courier() -> _Courier:
    return _Courier()


class Ended(Protocol[Told_co]):
    """Work that has ended, of asyncio's or a thread's."""

    def cancelled(self) -> bool:
        """Tell whether it was called off."""

    def exception(self) -> BaseException | None:
        """Return what it raised."""

    def result(self) -> Told_co:
        """Return what came of it."""


def hand_over(
    owner: QObject, done: Callable[[T], None], failed: Callable[[Exception], None], ended: Ended[T]
) -> None:
    """Call `done` or `failed`, unless the owner is gone or the work was called off."""
    if ended.cancelled() or not isValid(owner):
        return
    error = ended.exception()
    if error is None:
        done(ended.result())
    elif isinstance(error, Exception):
        failed(error)


def window_calls() -> Callable[[Callable[[], None]], None]:
    """Return what brings calls from any thread into the window's; ask for it there."""
    courier = _courier()

    def call(take: Callable[[], None]) -> None:
        courier.expect(lambda _nothing: take())(None)

    return call


def expect_in_window(
    owner: QObject, done: Callable[[T], None], failed: Callable[[Exception], None]
) -> Callable[[Ended[T]], None]:
    """Return what brings ended work of any thread to `hand_over`; ask in the window's thread."""
    return _courier().expect(partial(hand_over, owner, done, failed))


class _Work(QRunnable):
    def __init__(self, call: Callable[[], object], tell: Callable[[_Outcome], None]) -> None:
        super().__init__()
        self._calls, self._tell = [call], tell

    def run(self) -> None:
        """Work in a thread of the pool."""
        self._tell(self._outcome())

    def _outcome(self) -> _Outcome:
        """Do the work, and let go of it before anybody hears: it may refer to widgets."""
        try:
            return self._calls.pop()(), None
        except Exception as error:  # noqa: BLE001 - told in the window's thread
            return None, error


@cache
def _pool(*, long: bool) -> QThreadPool:
    """One for what somebody waits for, and one for what takes its time.

    So that a document being read, or a model being copied, holds up neither a load nor a search.
    """
    pool = QThreadPool() if long else QThreadPool.globalInstance()
    pool.setMaxThreadCount(_LONG_AT_ONCE if long else max(_SHORT_AT_ONCE, available_cores()))
    return pool


def in_background(
    owner: QObject,
    call: Callable[[], T],
    done: Callable[[T], None],
    failed: Callable[[Exception], None],
    *,
    long: bool = False,
) -> None:
    """Run `call` in another thread, then `done` or `failed` in the window's.

    Neither is called once `owner` is gone. `call` must not touch widgets.

    Args:
        owner: who wants it.
        call: what is to be done.
        done: gets the result.
        failed: gets the error.
        long: it may take many seconds; then it waits for other such calls only.
    """

    def finish(outcome: _Outcome) -> None:
        value, error = outcome
        if not isValid(owner):
            return
        if error is None:
            done(cast("T", value))
        else:
            failed(error)

    _pool(long=long).start(_Work(call, _courier().expect(finish)))


def in_own_thread(call: Callable[[], None], name: str) -> None:
    """Run `call` in a thread of its own; what it refers to is released in the window's thread."""
    kept = [call]
    over = _courier().expect(lambda _nothing: kept.clear())

    def run() -> None:
        try:
            kept[0]()
        finally:
            over(None)

    threading.Thread(target=run, name=name, daemon=True).start()


class NewestOnly(QObject):
    """Runs calls in the background; the result of one that a newer one has replaced is dropped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._number = 0

    def do(
        self,
        call: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `call` in another thread; then, if it is still the newest, one of the others here."""
        self._number += 1
        number = self._number

        def if_newest(then: Callable[[Any], None], value: object) -> None:
            if number == self._number:
                then(value)

        in_background(self, call, partial(if_newest, done), partial(if_newest, failed))


def numpy_whole() -> None:
    """Import numpy before anything of it, in every thread that may be the first.

    A thread that begins with a part of it (`numpy.typing`) while another one imports numpy does not
    wait for that, and gets half a module.
    """
    import numpy  # noqa: F401, ICN001


class BackgroundQueue(QObject):
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
