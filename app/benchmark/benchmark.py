"""Asks for a comparison of modes, follows it, keeps what it came to, and uses the winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.benchmark.kept import Kept, KeptReports, fingerprint
from app.engine_link.asker import Asker
from app.engine_link.background import in_background
from app.engine_link.running import Running
from app.engine_link.status import EngineStatus, Phase
from app.version import version
from engine.bench.modes.report import ComparisonReport, Hardware, ModeRow, report, rows_of
from engine.commands import Compare, Mode, Preview, Stop
from engine.events import Compared, CompareProgress, PlanReady, Previewed, Unloaded
from engine.language import later


class BenchmarkStage(StrEnum):
    """States of a benchmark."""

    IDLE = "idle"
    WAITING = "waiting"
    """The benchmark waits for the end of an answer, a load or a calibration."""
    RUNNING = "running"
    STOPPING = "stopping"


class Stale(StrEnum):
    """Changes since the last benchmark that make it doubtful; the values are texts for `tr`."""

    HARDWARE = later("Measured on other hardware; measure again.")
    MODEL = later("The model's files have changed since; measure again.")
    VERSION = later("Measured with another version of Duotail; measure again.")


@dataclass(frozen=True, slots=True)
class BenchmarkOutcome:
    """End of the last benchmark in this run of the window."""

    complete: bool
    winner: Mode | None = None


class Benchmark(QObject):
    """The benchmark of the model in memory.

    Args:
        running: applies the winner.
        kept: results of earlier runs.
        now: tells the time.
    """

    changed = Signal()

    def __init__(
        self,
        running: Running,
        kept: KeptReports,
        now: Callable[[], datetime] = datetime.now,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.running, self.wish = running, Compare()
        self._kept, self._now = kept, now
        self._bridge = running.bridge
        self._asker = Asker(self._bridge, self)
        self.stage = BenchmarkStage.IDLE
        self.progress: CompareProgress | None = None
        self.report: ComparisonReport | None = None
        """The last of the model in memory."""
        self.outcome: BenchmarkOutcome | None = None
        self.preview: Previewed | None = None
        self._files = self._files_now = ""
        self._model: Path | None = None
        self._bridge.subscribe(CompareProgress, self._follow)
        self._bridge.subscribe(Compared, self._ended)
        self._bridge.subscribe(PlanReady, self._loaded)
        self._bridge.subscribe(Unloaded, lambda _event: self._unloaded())
        self._bridge.status_changed.connect(lambda _status: self._go_on())
        if self.status.model is not None:
            self._look_up(self.status.model)

    @property
    def status(self) -> EngineStatus:
        """The engine's."""
        return self._bridge.status

    @property
    def possible(self) -> bool:
        """True if there is a model to measure, or will be in a moment."""
        loading = self.status.phase in (Phase.LOADING, Phase.PREPARING)
        here = self.status.plan is not None and not self.status.plan.host
        return self.stage is BenchmarkStage.IDLE and (here or loading)

    @property
    def rows(self) -> tuple[ModeRow, ...]:
        """Return what is known of each mode, from the comparison under way or from the last one."""
        if self.stage is not BenchmarkStage.IDLE:
            return rows_of(self.progress.runs) if self.progress is not None else ()
        return self.report.rows if self.report is not None else ()

    @property
    def stale(self) -> Stale | None:
        """Return why the last benchmark says little about now; None: it still holds."""
        last, machine = self.report, self.status.machine
        if last is None or self.stage is not BenchmarkStage.IDLE:
            return None
        if machine is not None and Hardware.of(machine) != last.hardware:
            return Stale.HARDWARE
        if self._files_now and self._files and self._files_now != self._files:
            return Stale.MODEL
        return Stale.VERSION if last.version != version() else None

    def start(self) -> None:
        """Measure; what is under way comes first."""
        if self.possible:
            self.stage, self.progress, self.outcome = BenchmarkStage.WAITING, None, None
            self._go_on()

    def cancel(self) -> None:
        """Call it off; the model runs again as before."""
        if self.stage is BenchmarkStage.WAITING:
            self.stage = BenchmarkStage.IDLE  # the engine was not asked yet: an answer goes on
        elif self.stage is BenchmarkStage.RUNNING and not self.status.busy:
            self.stage = BenchmarkStage.STOPPING
            self._bridge.submit(Stop())
        self.changed.emit()

    def use(self, mode: Mode) -> None:
        """Run this model in this mode from now on."""
        self.running.keep_mode(mode)
        self.changed.emit()

    def look_ahead(self) -> None:
        """Have it told which modes would run, for a word on how long it takes."""
        wanted = self.status.wanted
        if wanted is not None and self.stage is BenchmarkStage.IDLE:
            self._asker.ask(Preview(wanted), self._previewed)

    def _go_on(self) -> None:
        """Ask the engine as soon as it has nothing else to do."""
        status = self.status
        if self.stage is BenchmarkStage.WAITING:
            if status.phase is Phase.READY and status.measured is None:
                self.stage = BenchmarkStage.RUNNING
                self._bridge.submit(self.wish)
            elif status.phase in (Phase.NO_MODEL, Phase.BROKEN):
                self.stage = BenchmarkStage.IDLE
        self.changed.emit()

    def _follow(self, event: CompareProgress) -> None:
        if self.stage is not BenchmarkStage.STOPPING:
            self.stage = BenchmarkStage.RUNNING
        self.progress = event
        self.changed.emit()

    def _ended(self, event: Compared) -> None:
        self.stage, self.progress = BenchmarkStage.IDLE, None
        self.outcome = BenchmarkOutcome(event.complete, event.winner)
        load, machine = self.status.loaded, self.status.machine
        known = load is not None and load.model == event.model and machine is not None
        if event.complete and known and load is not None and machine is not None:
            name = self.status.model_name
            made = report(event, load, self.wish, name, machine, version(), self._now())
            self._model, self.report = event.model, made
            self._keep(event.model, made)
            if event.winner is not None and not event.noisy:
                self.running.keep_mode(event.winner)
        self.changed.emit()

    def _keep(self, model: Path, made: ComparisonReport) -> None:
        def keep() -> str:
            files = fingerprint(model)
            self._kept.keep(model, Kept(made, files))
            return files

        def done(files: str) -> None:
            if self._model == model:
                self._files = self._files_now = files
                self.changed.emit()

        in_background(self, keep, done, lambda _error: None)

    def _loaded(self, event: PlanReady) -> None:
        if event.model != self._model:
            self.outcome = None
            self._look_up(event.model)
        self.changed.emit()

    def _unloaded(self) -> None:
        self._model = self.report = self.outcome = None
        self.changed.emit()

    def _look_up(self, model: Path) -> None:
        self._model, self.report = model, None

        def done(found: tuple[Kept | None, str]) -> None:
            kept, files = found
            if self._model == model and self.report is None and kept is not None:
                self.report, self._files, self._files_now = kept.report, kept.files, files
                self.changed.emit()

        in_background(
            self, lambda: (self._kept.read(model), fingerprint(model)), done, lambda _error: None
        )

    def _previewed(self, event: Previewed) -> None:
        self.preview = event
        self.changed.emit()
