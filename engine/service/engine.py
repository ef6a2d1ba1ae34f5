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
of the queue; without an id it stops everything. Every Load ends in a PlanReady or an Unloaded that
names what is in memory now, unless a newer Load or Unload takes its place in the queue. Every
Calibrate ends in a Calibrated, without speeds if something else came up; every Compare in a
Compared, before which the model runs again as it did, also before the answer that ended it; while
one is being called off, another one is not "on". Count and Preview are answered beside all this, at
once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from engine.bench.modes.comparison import Comparison, Home
from engine.bench.modes.measurement import winner
from engine.commands import (
    Calibrate,
    Command,
    Compare,
    Count,
    Generate,
    Load,
    Mode,
    Preview,
    Stop,
    Unload,
)
from engine.errors import Cancelled, DeviceLost, OutOfMemory
from engine.events import (
    AnswerStats,
    Calibrated,
    CalibrationProgress,
    Compared,
    DeviceSample,
    Event,
    Failed,
    Finished,
    FinishReason,
    LoadProgress,
    MachineFound,
    PlanReady,
    Unloaded,
)
from engine.failures import failed
from engine.hardware.memory import give_memory_back
from engine.hardware.watching.accelerator_watch import AcceleratorWatch
from engine.hardware.watching.monitor import DeviceMonitor
from engine.language import tr
from engine.loading.checking import CheckedPair, check
from engine.loading.load import LoadedPair, fits_beside, load
from engine.loading.machinery import Machinery
from engine.loading.placing import close
from engine.machine.facts import CPU
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan
from engine.service.agenda import Agenda, Announce, Dropped, Work
from engine.service.counting import TokenCounter
from engine.service.memory_book import MemoryBook
from engine.service.previewing import Previewer, with_memory_of
from engine.service.refusing import look_for_ways_out, refused
from engine.session.answering import Answer

_log = logging.getLogger(__name__)


class Engine:
    """Owns the engine thread.

    Args:
        emit: called with every event, from the engine's threads; must be quick and thread-safe.
        sample_devices: whether to emit a DeviceSample twice a second.
        machinery: what it computes on, made from what tells whether the work was called off.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        sample_devices: bool = True,
        machinery: Callable[[Callable[[], bool]], Machinery] = Machinery,
    ) -> None:
        self._listener = emit
        self._agenda = Agenda()
        self._wake = threading.Condition()
        self._current: Work | None = None
        self._cancel = threading.Event()
        self._machinery = machinery(self._cancel.is_set)
        self._closed = False
        self._pair: LoadedPair | None = None
        self._answers = 0  # that it has written
        self._book = MemoryBook(self._emit, self._machinery.estimates)
        self._counter = TokenCounter(self._emit, lambda: self._pair)
        self._previewer = Previewer(self._emit, self._machinery, lambda: self._pair)
        watch = AcceleratorWatch(simulated=self._machinery.simulated)
        self._monitor = DeviceMonitor(self._emit_sample, watch) if sample_devices else None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Hand over a command; never blocks. What becomes of it comes as events."""
        if isinstance(command, Count):
            self._counter.ask(command.request)
            return
        if isinstance(command, Preview):
            self._previewer.ask(command)
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
            self._cancel.set()
            self._wake.notify()
        if self._monitor is not None:
            self._monitor.close()
        self._counter.close(timeout)
        self._previewer.close(timeout)
        self._thread.join(timeout)
        self._book.close(timeout)

    def _enter(self, command: Load | Unload | Dropped) -> None:
        """Put it on the agenda, and make an end of what it does not wait for."""
        current = self._current
        patient = isinstance(command, Calibrate | Compare)
        if patient and type(command) is type(current) and not self._cancel.is_set():
            return  # it is under way
        self._agenda.add(command)
        waits = isinstance(command, Dropped)
        if isinstance(current, Generate):
            waits |= isinstance(command, Load) and command.after_answer
        gives_way = isinstance(current, Calibrate | Compare) and not patient
        if gives_way or not waits:
            self._cancel.set()

    def _stop(self, stop: Stop) -> list[Dropped]:
        """Cancel the current work if it is meant; returns what was taken off the agenda."""
        current = self._current
        running = current.request.id if isinstance(current, Generate) else None
        if stop.request_id in (None, running):
            self._cancel.set()
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
                self._cancel.clear()
            self._work(self._current)
        self._keep_learnt()
        self._pair = None

    def _work(self, work: Work) -> None:
        try:
            match work:
                case Load():
                    self._load(work)
                case Generate():
                    self._generate(work)
                case Unload():
                    self._drop_model()
                    self._announce_model()
                case Announce():
                    self._announce_model()
                case Calibrate():
                    self._calibrate()
                case Compare():
                    self._compare(work)
        except BaseException as error:  # noqa: BLE001 - a Failed event, never a dead thread
            self._emit(failed(error, None))

    def _load(self, command: Load, *, insist: bool = False) -> None:
        """Load a model; `insist`: only another change of model is a reason not to."""
        checked: CheckedPair | None = None
        if command.unless_so and self._pair is not None and command.same_as(self._pair.command):
            self._announce_model()
            return
        try:
            self._emit(LoadProgress(perf_counter(), tr("Checking the files"), 0.0))
            checked = self._check(command)
            if self._cancel.is_set():
                raise Cancelled
            self._build(checked)
        except Cancelled:
            if insist:
                self._return_to(command)
                return
            if self._model_change_waits():
                return
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(self._refused(error, command, checked))
            if checked is not None and isinstance(error, DeviceLost):
                self._go_on_without(checked.placing, command)
                return
        self._announce_model()

    def _check(self, command: Load) -> CheckedPair:
        """Plan with the memory that will be there when the present model is gone."""
        machine = self._machinery.look(command.simulate_gpu)
        self._emit(MachineFound(perf_counter(), machine))
        if self._monitor is not None:
            self._monitor.learn(machine)
        pair = self._pair
        if pair is not None:
            machine = with_memory_of(pair, machine)
        speeds, text = self._machinery.speeds(machine), pair.text if pair is not None else None
        checked = check(command, machine, speeds, text)
        complete = self._machinery.complete(machine, speeds, checked.facts)
        if complete is speeds:
            return checked
        return check(command, machine, complete, checked.text)

    def _refused(self, error: BaseException, command: Load, checked: CheckedPair | None) -> Failed:
        """A failed load in words; of one that lacks memory, with what would fit."""
        if not isinstance(error, OutOfMemory):
            return refused(error, None)
        try:
            machine = self._machinery.look(command.simulate_gpu)
            if checked is not None:
                whole = machine if self._pair is None else with_memory_of(self._pair, machine)
                look_for_ways_out(error, checked, whole, self._machinery.speeds(machine))
            return refused(error, machine)
        except Exception:  # noqa: BLE001 - help is missing, nothing worse
            _log.warning("nobody could tell what would fit", exc_info=True)
            return refused(error, None)

    def _build(self, checked: CheckedPair) -> None:
        """Replace the present model, which goes first where memory does not hold both."""
        if self._pair is None:
            self._book.before_load()
        else:
            planned = checked.machine.host.memory_available
            if not fits_beside(checked.placing, self._pair, planned - self._pair.held_on(CPU)):
                self._drop_model()
        pair = load(
            checked,
            self._machinery.open,
            self._load_progress,
            self._cancel.is_set,
            self._pair,
            self._machinery.learnt,
        )
        self._put(pair)
        pair.take_over()
        self._book.loaded(checked, pair)

    def _go_on_without(self, plan: Plan, command: Load) -> None:
        """An accelerator is lost: plan again with what is left, before anything else is done."""
        lost = plan.accelerator or CPU
        self._machinery.lose(lost)
        if self._pair is not None and lost in self._pair.devices:
            self._drop_model()
        needed_it = command.mode in (Mode.DOVETAIL, Mode.DUO)
        mode = Mode.AUTO if needed_it else command.mode
        again = replace(command, mode=mode, layers_on_gpu=None, after_answer=True)
        with self._wake:
            if not self._agenda.changes_model:
                self._agenda.add(again)

    def _model_change_waits(self) -> bool:
        with self._wake:
            return self._agenda.changes_model

    def _announce_model(self) -> None:
        pair = self._pair
        if pair is None:
            self._emit(Unloaded(perf_counter()))
        else:
            self._emit(PlanReady(perf_counter(), pair.path, pair.name, pair.plan, pair.command))
        self._book.tell()

    def _load_progress(self, stage: str, fraction: float) -> None:
        self._emit(LoadProgress(perf_counter(), stage, fraction))

    def _put(self, pair: LoadedPair | None) -> None:
        """Into the place of the present one, whose memory is given back."""
        self._keep_learnt()
        devices = self._pair.devices if self._pair is not None else {}
        self._pair, self._answers = pair, 0
        give_memory_back()
        close(devices)

    def _keep_learnt(self) -> None:
        """What decoding has learnt of the pair is known at the next start."""
        if self._pair is not None and self._answers:
            self._pair.keep_learnt(self._machinery.learnt)

    def _drop_model(self) -> None:
        self._book.unloaded()
        self._put(None)

    def _calibrate(self) -> None:
        speeds: Speeds | None = None
        try:
            speeds = self._machinery.measure(self._calibration_progress, self._cancel.is_set)
        except Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, None))
        self._over()
        self._emit(Calibrated(perf_counter(), speeds))

    def _calibration_progress(self, stage: str, fraction: float) -> None:
        self._emit(CalibrationProgress(perf_counter(), stage, fraction))

    def _compare(self, wish: Compare) -> None:
        pair = self._pair
        if pair is None:
            nothing = tr("No model is loaded."), tr("Load the model that you want to measure.")
            self._emit(Failed(perf_counter(), None, *nothing))
            self._emit(Compared(perf_counter(), Path(), (), complete=False))
            return
        load = pair.command
        del pair  # its weights must be free to go meanwhile
        home = Home(
            load=load,
            present=lambda: self._pair,
            leave=self._drop_model,
            come_back=lambda: self._build(self._check(load)),
            check=self._check,
        )
        comparison = Comparison(wish, home, self._machinery, self._cancel.is_set, self._emit)
        complete = False
        try:
            comparison.run()
            complete = comparison.lost is None
        except Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, None))
        comparison.close()
        if comparison.lost is not None and self._pair is None:
            self._go_on_without(comparison.lost, load)
        else:
            self._return_to(load)
        best = winner(comparison.runs) if complete else None
        self._over()
        self._emit(Compared(perf_counter(), load.model, comparison.runs, complete, best))

    def _return_to(self, load: Load) -> None:
        """Have the model as it was, unless another change of model is to come."""
        with self._wake:
            if self._closed or self._agenda.changes_model:
                return
            self._current = load
            self._cancel.clear()
        if self._pair is None:
            self._load(load, insist=True)
        else:
            self._announce_model()

    def _generate(self, work: Generate) -> None:
        if self._pair is None:
            self._emit(
                Failed(
                    perf_counter(),
                    work.request.id,
                    tr("No model is loaded."),
                    tr("Load a model and send the message again."),
                )
            )
            self._close_answer(work, FinishReason.ERROR)
            return
        plan, command = self._pair.placing, self._pair.command
        answer = Answer(self._pair, work.request, self._emit, self._cancel.is_set)
        try:
            answer.write()
        except BaseException as error:  # noqa: BLE001 - reported in words
            self._emit(failed(error, work.request.id))
            answer.give_up()
            if isinstance(error, DeviceLost):
                self._go_on_without(plan, command)
                return
        self._answers += 1
        if self._answers.bit_count() == 1:  # 1, 2, 4, 8, ...
            self._keep_learnt()
        self._book.answered(answer.tokens)
        self._book.tell()

    def _over(self) -> None:
        """What runs is at its end: the same, asked for by who hears of that, is asked for anew."""
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
                pair = self._pair
                model = Path() if pair is None else pair.path
                self._emit(Compared(perf_counter(), model, (), complete=False))

    def _close_answer(self, work: Generate, reason: FinishReason) -> None:
        """End an answer of which nothing was written."""
        stats = AnswerStats(0, 0, 0, 0, 0, 0, 0, (), (), None, None, None, 0.0)
        seed = work.request.sampling.seed
        self._emit(Finished(perf_counter(), work.request.id, reason, "", (), stats, seed))

    def _emit_sample(self, sample: DeviceSample) -> None:
        self._emit(sample)

    def _emit(self, event: Event) -> None:
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001 - a listener's mistake must not end the engine
            _log.exception("an event listener failed on %s", type(event).__name__)
