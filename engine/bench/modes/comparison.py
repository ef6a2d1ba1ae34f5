"""Measures the model in memory in each mode, in turns, and leaves it as it was.

The present pair stays in memory beside the others where there is room, so that coming back to it
costs nothing. The turns go to and fro (A B C, C B A): what drifts meanwhile hits all alike, and the
last one is with the model that was there before. Where a change takes long, each further mode has
all its turns when its models are in memory. Where the speeds lie too far apart to tell the fastest
mode, all of it is measured once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from traceback import clear_frames

from engine.bench.harness import to_and_fro
from engine.bench.modes.measurement import (
    MODES,
    MeasuredMode,
    ModeCandidate,
    Station,
    ask,
    borrowed,
    find_candidates,
    noisy,
    own_states,
    same_run,
    stations,
)
from engine.bench.modes.questions import QUESTIONS
from engine.commands import Compare, Load
from engine.devices.memory import give_memory_back
from engine.errors import Cancelled, DeviceLost, failed
from engine.events import CompareProgress, ModeRun
from engine.loading.devices import DeviceManager, close
from engine.loading.load import LoadedPair, fits_beside, load
from engine.loading.planned_load import PlannedLoad
from engine.plan.plan import Plan

SLOW_CHANGE_S = 8.0
"""A change of models that takes longer is not made more often than necessary."""
_WARM_UP = 8
"""Tokens of the answer that does not count, after every change."""


@dataclass(frozen=True, slots=True)
class Home:
    """The model that is compared, as its owner lends it.

    Attributes:
        load: how it was loaded.
        present: the pair, or None while it is not in memory.
        leave: gives its memory back.
        come_back: loads it as it was; raises as `engine.loading.load.load`.
        check: plans a load; raises as `engine.loading.planned_load.plan_load`.
    """

    load: Load
    present: Callable[[], LoadedPair | None]
    leave: Callable[[], None]
    come_back: Callable[[], None]
    check: Callable[[Load], PlannedLoad]


class Comparison:
    """One comparison; `close` it whatever came of it.

    Args:
        wish: what is compared.
        home: the model.
        manager: opens devices.
        cancelled: whether the user wants something else.
        emit: takes progress events.
    """

    def __init__(
        self,
        wish: Compare,
        home: Home,
        manager: DeviceManager,
        cancelled: Callable[[], bool],
        emit: Callable[[CompareProgress], None],
    ) -> None:
        self._wish, self._home, self._manager = wish, home, manager
        self._cancelled, self._emit = cancelled, emit
        self._stations: list[Station] = []
        self._measured: list[MeasuredMode] = []
        self._others: list[ModeRun] = []
        self._pair: LoadedPair | None = None
        """Pair of the station, where it is not the home's."""
        self._at: Station | None = None
        self._slow = False
        self._passes = wish.passes
        self.noisy = False
        """True if the speeds lay too far apart to tell the fastest mode."""
        self.lost: Plan | None = None
        """The plan that ran when an accelerator was lost."""

    @property
    def runs(self) -> tuple[ModeRun, ...]:
        """Results so far, in the order in which modes are offered."""
        known = [*(each.run for each in self._measured), *self._others]
        return tuple(sorted(known, key=lambda run: MODES.index(run.mode)))

    def run(self) -> None:
        """Measure everything.

        Raises:
            Cancelled: the user wants something else.
        """
        present = self._home.present()
        assert present is not None, "there is a model to compare"  # noqa: S101
        plan = present.plan
        del present
        candidates, self._others = find_candidates(
            self._home.load, self._wish.modes or MODES, self._check
        )
        self._measured = [MeasuredMode(each.mode, each.checked.summary) for each in candidates]
        self._stations = stations(candidates, plan)
        self._measure(plan, range(self._passes))
        self.noisy = noisy(self.runs)
        if self.noisy:
            first, self._passes = self._passes, 2 * self._passes
            self._measure(plan, range(first, self._passes))
            self.noisy = noisy(self.runs)

    def _measure(self, home: Plan, passes: range) -> None:
        for number in passes:
            for station in to_and_fro(self._stations, number):
                self._visit(station, home, number)

    def close(self) -> None:
        """Give back what was loaded for it."""
        pair, self._pair, self._at = self._pair, None, None
        if pair is not None:
            devices = pair.devices
            del pair
            give_memory_back()
            close(devices)

    def _check(self, command: Load) -> PlannedLoad:
        if self._cancelled():
            raise Cancelled
        return self._home.check(command)

    def _visit(self, station: Station, home: Plan, number: int) -> None:
        """Measure one turn of a station, or all turns left where changing models is slow."""
        if station.passes > number or self._over(station):
            return
        at_home = same_run(station.checked.plan, home)
        there = self._at is station or (at_home and self._home.present() is not None)
        self._progress(station.candidates[0], loading=not there)
        try:
            self._go_to(station, at_home=at_home)
            rest = self._passes - number if self._slow and not at_home else 1
            for _ in range(rest):
                self._turn(station, at_home=at_home)
                station.passes += 1
        except Cancelled as error:
            clear_frames(error.__traceback__)  # the pair hangs on them
            raise
        except Exception as error:  # noqa: BLE001 - the other modes go on
            self._refuse(station, error)
            clear_frames(error.__traceback__)
        if self._over(station):
            self.close()
            self._forsake_lost()

    def _go_to(self, station: Station, *, at_home: bool) -> None:
        if self._at is station:
            return
        self.close()
        if at_home:
            if self._home.present() is None:
                self._home.come_back()
        else:
            started = perf_counter()
            self._pair = self._loaded(station.checked)
            self._slow |= perf_counter() - started > SLOW_CHANGE_S
        self._at = station

    def _loaded(self, checked: PlannedLoad) -> LoadedPair:
        """Load the pair, beside the home's where memory holds both."""
        home = self._home.present()
        if home is not None and not fits_beside(checked, home):
            home = None
            self._home.leave()
        return load(checked, self._manager.open, cancelled=self._cancelled, beside=home)

    def _turn(self, station: Station, *, at_home: bool) -> None:
        pair = self._home.present() if at_home else self._pair
        assert pair is not None, "its models are in memory"  # noqa: S101
        states = own_states(pair)
        pairs = [(each, borrowed(pair, each, states)) for each in station.candidates]
        del pair
        for _, lent in pairs:
            ask(lent, QUESTIONS[0], min(_WARM_UP, self._wish.tokens), self._cancelled)
        for number, question in enumerate(QUESTIONS):
            for candidate, lent in to_and_fro(pairs, number):
                self._progress(candidate)
                stats = ask(lent, question, self._wish.tokens, self._cancelled)
                measured = self._of(candidate)
                measured.plan = lent.summary
                measured.answers.append(stats)

    def _of(self, candidate: ModeCandidate) -> MeasuredMode:
        return next(each for each in self._measured if each.mode is candidate.mode)

    def _over(self, station: Station) -> bool:
        """Tell whether one of its modes cannot be measured."""
        return any(self._of(each).refusal for each in station.candidates)

    def _refuse(self, station: Station, error: Exception) -> None:
        """Note why these modes fail; with a lost accelerator, all that need it."""
        told = failed(error, None)
        hit = [station]
        if isinstance(error, DeviceLost):
            self.lost = station.checked.plan
            gone = self.lost.accelerator
            hit += [each for each in self._stations if gone in each.devices]
        for each in hit:
            for candidate in each.candidates:
                self._of(candidate).refusal = told.cause

    def _forsake_lost(self) -> None:
        """Release a home whose accelerator is gone."""
        home = self._home.present()
        if self.lost is not None and home is not None and self.lost.accelerator in home.devices:
            self._home.leave()

    def _progress(self, candidate: ModeCandidate, *, loading: bool = False) -> None:
        if self._cancelled():
            raise Cancelled
        each = len(QUESTIONS) * self._passes
        done = sum(each if one.refusal else len(one.answers) for one in self._measured)
        fraction = done / (each * len(self._measured))
        now = perf_counter()
        told = CompareProgress(now, candidate.mode, fraction, self.runs, loading, self.noisy)
        self._emit(told)
