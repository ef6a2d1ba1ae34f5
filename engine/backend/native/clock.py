"""Time spent in the native library: a clock around each of its calls.

Nothing is measured, and nothing is slower, until a clock is entered.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from engine.backend.native.library import library


class NativeClock:
    """Seconds and number of calls of the library while the `with` block lasts, of all threads.

    The conversion of a call's arguments counts as the library's time, about a microsecond a call.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._untimed: dict[str, Any] = {}

    def __enter__(self) -> Self:
        lib = library()
        declared = {name: value for name, value in vars(lib).items() if name.startswith("dt_")}
        for name, function in declared.items():
            setattr(lib, name, self._timed(function))
        self._untimed = declared
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for name, function in self._untimed.items():
            setattr(library(), name, function)

    def _timed(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            start = perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += perf_counter() - start
                self.calls += 1

        return call
