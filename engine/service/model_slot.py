"""The one place in memory for a model: how a pair comes into it, and goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from engine.commands import Load
from engine.devices.accelerators.nvml import holders_on_card
from engine.devices.holders import holders_on_host, simulated_holder
from engine.devices.memory import give_memory_back
from engine.errors import OutOfMemory, failed
from engine.events import AnswerStats, Event, Failed, LoadProgress, PlanReady, Unloaded
from engine.loading.devices import DeviceManager, IsCancelled, close
from engine.loading.load import LoadedPair, fits_beside, load
from engine.loading.planned_load import PlannedLoad, loads_that_fit, plan_inspected, plan_load
from engine.machine.facts import CPU, Machine
from engine.machine.memory import Holder
from engine.machine.speeds import Speeds
from engine.service.memory_book import MemoryBook
from engine.service.placement_watch import PlacementWatch

_TOO_MUCH = 0.9
"""Most to plan on the device that was short, as a share of the failed load's plan."""
_log = logging.getLogger(__name__)


def refused(error: BaseException, machine: Machine | None) -> Failed:
    """Return a load's failure in words, with the programs that hold what is missing.

    Args:
        error: what came up.
        machine: as it was seen for the load; None where it was not yet looked at.
    """
    told = failed(error, None, loading=True)
    lacking = told.shortage
    if lacking is None or machine is None:
        return told
    return replace(told, shortage=replace(lacking, holders=_holders(lacking.device, machine)))


def look_for_ways_out(
    error: OutOfMemory, planned: PlannedLoad, machine: Machine, speeds: Speeds
) -> None:
    """Look for loads that fit, after one has failed that should have: with less of what was short.

    Args:
        error: what came up; takes what is found.
        planned: what was being loaded.
        machine: as it is now, the memory of the present model counted as free.
        speeds: of it.
    """
    short = error.shortage.device if error.shortage is not None else CPU
    most = round(planned.plan.on(short).total * _TOO_MUCH)
    inspection = replace(planned.inspection, machine=_with_less(machine, short, most))
    error.ways_out = loads_that_fit(inspection, speeds)


def _with_less(machine: Machine, device: str, most: int) -> Machine:
    """The machine with at most so many bytes free on a device."""
    host = machine.host
    if device == CPU:
        free = min(host.memory_available, most)
        return replace(machine, host=replace(host, memory_available=free))
    return replace(
        machine,
        accelerators=tuple(
            replace(each, memory_free=min(each.memory_free or 0, most))
            if each.device == device
            else each
            for each in machine.accelerators
        ),
    )


def _holders(device: str, machine: Machine) -> tuple[Holder, ...]:
    if device == CPU:
        return holders_on_host()
    found = next((each for each in machine.accelerators if each.device == device), None)
    if found is None:
        return ()
    return (
        simulated_holder(found.memory_of_others or 0) if found.simulated else holders_on_card(found)
    )


class ModelSlot:
    """Holds the loaded pair of one engine, from whose thread it is called.

    Args:
        manager: the devices.
        emit: takes events.
        cancelled: whether the user has stopped what is being done.
    """

    def __init__(
        self, manager: DeviceManager, emit: Callable[[Event], None], cancelled: IsCancelled
    ) -> None:
        self._manager, self._emit, self._cancelled = manager, emit, cancelled
        self.pair: LoadedPair | None = None
        """The loaded pair; None while there is none."""
        self._answers = 0  # that it has written
        self._book = MemoryBook(emit, manager.estimates)
        self._watch = PlacementWatch(manager.reached)

    def plan(self, command: Load, machine: Machine) -> PlannedLoad:
        """Plan with the memory that will be there when the present model is gone.

        Args:
            command: what to load.
            machine: as it is now.

        Raises:
            Cancelled: the user stopped it.
            UserFixable: it cannot be loaded.
        """
        text = None
        if self.pair is not None:
            machine, text = self.pair.machine_without_it(machine), self.pair.text
        speeds = self._manager.speeds(machine)
        planned = plan_load(command, machine, speeds, text)
        complete = self._manager.complete(machine, speeds, planned.facts)
        return planned if complete is speeds else plan_inspected(planned.inspection, complete)

    def build(self, planned: PlannedLoad) -> None:
        """Replace the present model, which goes first where memory does not hold both.

        Raises:
            Cancelled, UserFixable: as `engine.loading.load.load`.
        """
        if self.pair is None:
            self._book.before_load()
        elif not fits_beside(planned, self.pair):
            self.drop()
        pair = load(
            planned,
            self._manager.open,
            self._progress,
            self._cancelled,
            self.pair,
            self._manager.learnt,
        )
        self._put(pair)
        pair.take_over()
        self._book.loaded(planned, pair)
        self._watch.loaded(planned)

    def refusal(self, error: BaseException, command: Load, planned: PlannedLoad | None) -> Failed:
        """Return a failed load in words; with what would fit, where it lacks memory.

        Args:
            error: what came up.
            command: what was to be loaded.
            planned: the same, planned; None where it did not get that far.
        """
        if not isinstance(error, OutOfMemory):
            return refused(error, None)
        try:
            machine = self._manager.look(command.simulate_gpu, command.device)
            if planned is not None:
                whole = machine if self.pair is None else self.pair.machine_without_it(machine)
                look_for_ways_out(error, planned, whole, self._manager.speeds(machine))
            return refused(error, machine)
        except Exception:  # noqa: BLE001 - help is missing, nothing worse
            _log.warning("nobody could tell what would fit", exc_info=True)
            return refused(error, None)

    def drop(self) -> None:
        """Give the present model's memory back."""
        self._book.unloaded()
        self._put(None)

    def lose(self, device: str) -> None:
        """Plan without a device that is lost; a model that lies on it goes as well."""
        self._manager.lose(device)
        if self.pair is not None and device in self.pair.devices:
            self.drop()

    def announce(self) -> None:
        """Say which model is in memory."""
        pair = self.pair
        if pair is None:
            self._emit(Unloaded(perf_counter()))
        else:
            what = pair.path, pair.name, pair.summary, pair.command
            self._emit(PlanReady(perf_counter(), *what, self._watch.take_moved()))
        self._book.tell()

    def answered(self, tokens: int, stats: AnswerStats | None) -> bool:
        """Take note of a written answer.

        Args:
            tokens: length of its conversation by now.
            stats: its own.

        Returns:
            Whether the model should be planned again: it would be faster elsewhere.
        """
        self._answers += 1
        if self._answers.bit_count() == 1:  # 1, 2, 4, 8, ...
            self.keep_learnt()
        self._book.answered(tokens)
        self._book.tell()
        return (
            self.pair is not None and stats is not None and self._watch.answered(self.pair, stats)
        )

    def keep_learnt(self) -> None:
        """Write down what decoding has learnt of the pair, for the next start."""
        if self.pair is not None and self._answers:
            self.pair.keep_learnt(self._manager.learnt)

    def close(self, timeout: float) -> None:
        """End the book's thread."""
        self._book.close(timeout)

    def _put(self, pair: LoadedPair | None) -> None:
        """Put a pair, or none, in the place of the present one, whose memory is given back."""
        self.keep_learnt()
        devices = self.pair.devices if self.pair is not None else {}
        self.pair, self._answers = pair, 0
        give_memory_back()
        close(devices)

    def _progress(self, stage: str, fraction: float) -> None:
        self._emit(LoadProgress(perf_counter(), stage, fraction))
