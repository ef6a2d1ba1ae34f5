"""The one place in memory for a model: how a pair comes into it, and goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from engine.commands import Load
from engine.devices.memory import give_memory_back
from engine.errors import OutOfMemory
from engine.events import Event, Failed, LoadProgress, PlanReady, Unloaded
from engine.loading.devices import DeviceManager, IsCancelled, close
from engine.loading.load import LoadedPair, fits_beside, load
from engine.loading.planned_load import PlannedLoad, plan_inspected, plan_load
from engine.machine.facts import CPU, Machine
from engine.service.memory_book import MemoryBook
from engine.service.refusal import look_for_ways_out, refused

_log = logging.getLogger(__name__)


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
        else:
            free = planned.inspection.machine.host.memory_available - self.pair.held_on(CPU)
            if not fits_beside(planned.plan, self.pair, free):
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
            machine = self._manager.look(command.simulate_gpu)
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
            self._emit(PlanReady(perf_counter(), pair.path, pair.name, pair.summary, pair.command))
        self._book.tell()

    def answered(self, tokens: int) -> None:
        """Take note of a written answer; `tokens`: length of its conversation by now."""
        self._answers += 1
        if self._answers.bit_count() == 1:  # 1, 2, 4, 8, ...
            self.keep_learnt()
        self._book.answered(tokens)
        self._book.tell()

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
