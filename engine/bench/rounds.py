"""The time of a round: the native library's share, and Python's around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from engine.backend.native.library import library
from engine.bench.prompts import BenchPrompt
from engine.events import Event, RoundFinished
from engine.loading.load import LoadedPair
from engine.request import ChatRequest, Message, Role, SamplingParams
from engine.session.answer import Answer


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Microseconds of a round, from the end of the one before to its own, its events included.

    Attributes:
        round_us: all of it.
        draft_us: until the tree was drafted.
        verify_us: the target's forward, its draws and the commit.
        native_us: inside the native library.
        python_us: outside of it.
        native_calls: calls of the library.
    """

    round_us: float
    draft_us: float
    verify_us: float
    native_us: float
    python_us: float
    native_calls: float


@dataclass(frozen=True, slots=True)
class RoundProfile:
    """Medians over the rounds that drafted and over the others; None where there were none.

    Each part has a median of its own: unlike one round's, they need not add up to `round_us`'s.
    """

    drafting: RoundTimes | None
    plain: RoundTimes | None
    drafting_rounds: int
    plain_rounds: int


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


class _Listener:
    """Times the rounds of one answer by its events."""

    def __init__(self, clock: NativeClock) -> None:
        self.clock = clock
        self._last: tuple[float, float, int] | None = None
        self.drafting: list[RoundTimes] = []
        self.plain: list[RoundTimes] = []

    def begin_answer(self) -> None:
        """Note that the next round is an answer's first, whose beginning is not timed."""
        self._last = None

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RoundFinished):
            return
        now = self._now()
        if self._last is not None:
            whole, native, calls = (a - b for a, b in zip(now, self._last, strict=True))
            times = RoundTimes(
                round_us=1e6 * whole,
                draft_us=1e6 * sum(each.seconds for each in event.drafting),
                verify_us=1e6 * event.verify.seconds,
                native_us=1e6 * native,
                python_us=1e6 * (whole - native),
                native_calls=calls,
            )
            (self.drafting if event.drafting else self.plain).append(times)
        self._last = self._now()  # what was done here is no part of the next round

    def _now(self) -> tuple[float, float, int]:
        return perf_counter(), self.clock.seconds, self.clock.calls


def profile_rounds(
    pair: LoadedPair, prompts: Sequence[BenchPrompt], sampling: SamplingParams, *, max_tokens: int
) -> RoundProfile:
    """Answer every prompt twice, the second time with a clock around the native calls."""
    listener = _Listener(NativeClock())
    requests = [
        ChatRequest(f"round-{number}", (Message(Role.USER, prompt.text),), sampling, max_tokens)
        for number, prompt in enumerate(prompts)
    ]
    for request in requests:
        Answer(pair, request, lambda _event: None, lambda: False).write()
    with listener.clock:
        for request in requests:
            listener.begin_answer()
            Answer(pair, request, listener, lambda: False).write()
    return RoundProfile(
        medians(listener.drafting),
        medians(listener.plain),
        len(listener.drafting),
        len(listener.plain),
    )


def medians(rounds: Sequence[RoundTimes]) -> RoundTimes | None:
    """Each part's median over `rounds`; None without a round."""
    columns = zip(*map(astuple, rounds), strict=True)
    return RoundTimes(*map(median, columns)) if rounds else None
