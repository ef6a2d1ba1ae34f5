"""Engine: one thread, a command queue in, typed events out; the only door the window uses.

What a command does in each state (a test per cell):

| state       | Load                | Generate         | Stop       | Unload            |
|-------------|---------------------|------------------|------------|-------------------|
| empty       | loads               | Failed           | nothing    | Unloaded          |
| loading     | cancels, loads new  | waits            | cancels it | cancels, unloads  |
| ready       | replaces the model  | answers          | nothing    | unloads           |
| generating  | stops it, loads new | waits            | stops it   | stops it, unloads |
| calibrating | ends it, loads      | ends it, answers | ends it    | ends it, unloads  |
| comparing   | ends it, loads      | ends it, answers | ends it    | ends it, unloads  |

| state       | Load after the answer | Calibrate         | Compare           |
|-------------|-----------------------|-------------------|-------------------|
| empty       | loads                 | measures          | Failed            |
| loading     | cancels, loads new    | waits             | waits             |
| ready       | replaces the model    | measures          | compares          |
| generating  | waits                 | waits             | waits             |
| calibrating | ends it, loads        | nothing: it is on | waits             |
| comparing   | ends it, loads        | waits             | nothing: it is on |

A load that fails or is cancelled leaves the present model in place, unless memory does not hold
both and the files looked usable: then the present one had to go first. Answers that wait are
written by whatever model is loaded when their turn comes. Stop with an id also takes an answer out
of the queue; without an id it stops all but answers that give way, which are not the window's own.
Every Load ends in a PlanReady or an Unloaded that names what is in memory now, unless a newer Load
or Unload takes its place in the queue. Every Calibrate ends in a Calibrated, without speeds if
something else came up; every Compare in a Compared, before which the model runs again as it did,
also before the answer that ended it; while one is being called off, another one is not "on". Count,
Preview and FindDrafts are answered beside all this, at once; Count waits where there is no model.
A Generate that gives way is stopped, as YIELDED, by one that does not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from engine.backend.native.pool import CancelFlag
from engine.bench.modes.comparison import Comparison, Home
from engine.bench.modes.measurement import winner
from engine.commands import (
    Calibrate,
    Command,
    Compare,
    Connect,
    Count,
    FindDrafts,
    Generate,
    Load,
    Mode,
    Preview,
    Stop,
    Unload,
)
from engine.devices.monitor import AcceleratorWatch, DeviceMonitor
from engine.errors import Cancelled, DeviceLost, failed
from engine.events import (
    AnswerStats,
    Calibrated,
    CalibrationProgress,
    Compared,
    Event,
    Failed,
    Finished,
    FinishReason,
    LoadProgress,
    MachineFound,
    PlanReady,
)
from engine.language import tr
from engine.loading.devices import DeviceManager
from engine.loading.planned_load import PlannedLoad
from engine.machine.facts import CPU
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan
from engine.service.agenda import Agenda, Announce, Dropped, Work
from engine.service.model_slot import ModelSlot
from engine.service.side_questions import DraftFinder, Previewer, TokenCounter
from engine.session.answer import Answer

_log = logging.getLogger(__name__)


class Engine:
    """Owns the engine thread.

    Args:
        emit: called with every event, from the engine's threads; must be quick and thread-safe.
        sample_devices: whether to emit a DeviceSample twice a second.
        manager: of the devices, made from what tells whether the work was called off.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        sample_devices: bool = True,
        manager: Callable[[Callable[[], bool]], DeviceManager] = DeviceManager,
    ) -> None:
        self._listener = emit
        self._agenda = Agenda()
        self._wake = threading.Condition()
        self._current: Work | None = None
        self._cancel = CancelFlag()
        self._makes_room = False  # why it is cancelled: an answer that does not give way came
        self._manager = manager(self._cancel)
        self._closed = False
        self._slot = ModelSlot(self._manager, self._emit, self._cancel)
        self._counter = TokenCounter(self._emit, lambda: self._slot.pair)
        self._previewer = Previewer(self._emit, self._manager, lambda: self._slot.pair)
        self._finder = DraftFinder(self._emit, lambda: self._slot.pair)
        watch = AcceleratorWatch(simulated=self._manager.simulated)
        self._monitor = DeviceMonitor(self._emit, watch) if sample_devices else None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Hand over a command; never blocks. What becomes of it comes as events.

        `Connect` is not for this engine: `engine.remote.switchboard` keeps it.
        """
        if isinstance(command, Connect):
            return
        if isinstance(command, Count):
            self._counter.ask(command)
            return
        if isinstance(command, Preview):
            self._previewer.ask(command)
            return
        if isinstance(command, FindDrafts):
            self._finder.ask(command)
            return
        dropped: list[Dropped] = []
        with self._wake:
            if self._closed:
                return
            if isinstance(command, Stop):
                dropped = self._stop(command)
            else:
                self._enter(command)
            self._wake.notify()
        for work in dropped:
            self._call_off(work)

    def close(self, timeout: float = 5.0) -> None:
        """Stop whatever runs, give the memory back and end the threads."""
        with self._wake:
            self._closed = True
            self._agenda.clear()
            self._call_off_current()
            self._wake.notify()
        if self._monitor is not None:
            self._monitor.close()
        for questions in (self._counter, self._previewer, self._finder):
            questions.close(timeout)
        self._thread.join(timeout)
        self._slot.close(timeout)

    def _enter(self, command: Load | Unload | Dropped) -> None:
        """Put it on the agenda, and make an end of what it does not wait for."""
        current = self._current
        patient = isinstance(command, Calibrate | Compare)
        if patient and type(command) is type(current) and not self._cancel:
            return  # it is under way
        self._agenda.add(command)
        waits = isinstance(command, Dropped)
        if isinstance(current, Generate):
            waits |= isinstance(command, Load) and command.after_answer
        gives_way = isinstance(current, Calibrate | Compare) and not patient
        makes_room = (
            isinstance(current, Generate)
            and current.gives_way
            and isinstance(command, Generate)
            and not command.gives_way
        )
        if gives_way or not waits:
            self._call_off_current()
        elif makes_room and not self._cancel:
            self._makes_room = True
            self._cancel.set()

    def _call_off_current(self) -> None:
        """Cancel the current work for good."""
        self._makes_room = False
        self._cancel.set()

    def _stop(self, stop: Stop) -> list[Dropped]:
        """Cancel the current work if it is meant; returns what was taken off the agenda."""
        if stop.means(self._current):
            self._call_off_current()
        return self._agenda.stop(stop)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._current = None
                while not self._agenda and not self._closed:
                    self._wake.wait()
                if self._closed:
                    break
                self._current = self._agenda.next()
                self._makes_room = False
                self._cancel.clear()
            self._work(self._current)
        self._slot.keep_learnt()
        self._slot.pair = None

    def _work(self, work: Work) -> None:
        try:
            match work:
                case Load():
                    self._load(work)
                case Generate():
                    self._generate(work)
                case Unload():
                    self._slot.drop()
                    self._slot.announce()
                case Announce():
                    self._slot.announce()
                case Calibrate():
                    self._calibrate()
                case Compare():
                    self._compare(work)
        except BaseException as error:  # noqa: BLE001 - a Failed event, never a dead thread
            self._emit(failed(error, None))

    def _load(self, command: Load, *, insist: bool = False) -> None:
        """Load a model; `insist`: only another change of model is a reason not to."""
        slot, planned = self._slot, None
        if command.unless_so and slot.pair is not None and command.same_as(slot.pair.command):
            slot.announce()
            return
        try:
            self._emit(LoadProgress(perf_counter(), tr("Checking the files"), 0.0))
            planned = self._plan(command)
            if self._cancel:
                raise Cancelled
            slot.build(planned)
        except Cancelled:
            if insist:
                self._return_to(command)
                return
            if self._model_change_waits():
                return
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(slot.refusal(error, command, planned))
            if planned is not None and isinstance(error, DeviceLost):
                self._go_on_without(planned.plan, command)
                return
        slot.announce()

    def _plan(self, command: Load) -> PlannedLoad:
        machine = self._manager.look(command.simulate_gpu, command.device)
        self._emit(MachineFound(perf_counter(), machine))
        if self._monitor is not None:
            self._monitor.learn(machine)
        return self._slot.plan(command, machine)

    def _go_on_without(self, plan: Plan, command: Load) -> None:
        """An accelerator is lost: plan again with what is left, before anything else is done."""
        self._slot.lose(plan.accelerator or CPU)
        needed_it = command.mode in (Mode.DOVETAIL, Mode.DUO)
        mode = Mode.AUTO if needed_it else command.mode
        again = replace(command, mode=mode, layers_on_gpu=None, after_answer=True)
        self._add_load(again)

    def _add_load(self, load: Load) -> None:
        """Have a model loaded next, unless another change of model is to come."""
        with self._wake:
            if not self._agenda.changes_model:
                self._agenda.add(load)

    def _model_change_waits(self) -> bool:
        with self._wake:
            return self._agenda.changes_model

    def _calibrate(self) -> None:
        speeds: Speeds | None = None
        try:
            speeds = self._manager.measure(self._calibration_progress, self._cancel)
        except Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, None))
        self._over()
        self._emit(Calibrated(perf_counter(), speeds))

    def _calibration_progress(self, stage: str, fraction: float) -> None:
        self._emit(CalibrationProgress(perf_counter(), stage, fraction))

    def _compare(self, wish: Compare) -> None:
        pair = self._slot.pair
        if pair is None:
            nothing = tr("No model is loaded."), tr("Load the model that you want to measure.")
            self._emit(Failed(perf_counter(), None, *nothing))
            self._emit(Compared(perf_counter(), Path(), (), complete=False))
            return
        load = pair.command
        del pair  # its weights must be free to go meanwhile
        home = Home(
            load=load,
            present=lambda: self._slot.pair,
            leave=self._slot.drop,
            come_back=lambda: self._slot.build(self._plan(load)),
            check=self._plan,
        )
        comparison = Comparison(wish, home, self._manager, self._cancel, self._emit)
        complete = False
        try:
            comparison.run()
            complete = comparison.lost is None
        except Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, None))
        comparison.close()
        if comparison.lost is not None and self._slot.pair is None:
            self._go_on_without(comparison.lost, load)
        else:
            self._return_to(load)
        best = winner(comparison.runs) if complete else None
        self._over()
        runs, noisy = comparison.runs, complete and comparison.noisy
        self._emit(Compared(perf_counter(), load.model, runs, complete, best, noisy))

    def _return_to(self, load: Load) -> None:
        """Have the model as it was, unless another change of model is to come."""
        with self._wake:
            if self._closed or self._agenda.changes_model:
                return
            self._current = load
            self._cancel.clear()
        if self._slot.pair is None:
            self._load(load, insist=True)
        else:
            self._slot.announce()

    def _generate(self, work: Generate) -> None:
        pair = self._slot.pair
        if pair is None:
            nothing = tr("No model is loaded."), tr("Load a model and send the message again.")
            self._emit(Failed(perf_counter(), work.request.id, *nothing))
            self._close_answer(work, FinishReason.ERROR)
            return
        plan, command = pair.plan, pair.command
        answer = Answer(pair, work.request, self._tell_of_answer, self._cancel)
        try:
            answer.write()
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, work.request.id))
            answer.give_up()
            if isinstance(error, DeviceLost):
                self._go_on_without(plan, command)
                return
        if self._slot.answered(answer.tokens, answer.stats):
            self._add_load(replace(command, after_answer=True, unless_so=False))

    def _tell_of_answer(self, event: Event) -> None:
        """Emit an answer's event; one that was stopped to make room says so."""
        if isinstance(event, Finished) and event.reason is FinishReason.STOPPED:
            with self._wake:
                if self._makes_room:
                    event = replace(event, reason=FinishReason.YIELDED)
        self._emit(event)

    def _over(self) -> None:
        """Note that the current work is done: a listener may ask for the same again."""
        with self._wake:
            self._current = None

    def _call_off(self, work: Dropped) -> None:
        """Tell of work that was taken off the agenda."""
        match work:
            case Generate():
                self._close_answer(work, FinishReason.STOPPED)
            case Calibrate():
                self._emit(Calibrated(perf_counter(), None))
            case Compare():
                pair = self._slot.pair
                model = Path() if pair is None else pair.path
                self._emit(Compared(perf_counter(), model, (), complete=False))

    def _close_answer(self, work: Generate, reason: FinishReason) -> None:
        """End an answer of which nothing was written."""
        stats = AnswerStats(0, 0, 0, 0, 0, 0, 0, (), (), None, None, None, 0.0)
        seed = work.request.sampling.seed
        self._emit(Finished(perf_counter(), work.request.id, reason, "", (), stats, seed))

    def _emit(self, event: Event) -> None:
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001 - a listener's mistake must not end the engine
            _log.exception("an event listener failed on %s", type(event).__name__)
        if isinstance(event, PlanReady):
            self._counter.wake()
