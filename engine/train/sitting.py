"""What happens between the steps of a training: checkpoints, estimates, reports, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import torch

from engine.train.batches import Batch
from engine.train.checkpoint import TrainingProgress
from engine.train.settings import TrainingSettings
from engine.train.trainer import Trainer, accepted_length


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """How a training stands.

    Attributes:
        acceptance_length: as last estimated on held-out texts; None: not yet.
        tokens_per_s: of this sitting.
        seconds_left: None: it cannot be told yet.
    """

    progress: TrainingProgress
    done: float
    acceptance_length: float | None
    tokens_per_s: float
    seconds_left: float | None


class Paused(Exception):
    """The user stopped a training; its checkpoint is written."""

    def __init__(self, progress: TrainingProgress) -> None:
        super().__init__()
        self.progress = progress


class Sitting:
    """One start of a training until it ends or is stopped; a training may take several."""

    def __init__(
        self,
        settings: TrainingSettings,
        trainer: Trainer,
        identity: str,
        held_out: list[Batch],
        device: torch.device,
        halves: bool,
        tell: Callable[[TrainingReport], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._settings, self._trainer, self._identity = settings, trainer, identity
        self._held_out, self._device, self._tell, self._stopped = held_out, device, tell, stopped
        self._halves = halves
        self._begun, self._first = monotonic(), trainer.progress
        self._saved = self._told = self._begun
        self._measured = -settings.measure_every
        self._acceptance: float | None = None

    def after_step(self, progress: TrainingProgress) -> None:
        """See `Trainer.run`."""
        now, settings = monotonic(), self._settings
        if self._stopped():
            self._save()
            raise Paused(progress)
        by_steps = settings.every_steps and progress.steps % settings.every_steps == 0
        if by_steps or now - self._saved >= settings.every:
            self._save()
            self._saved = now
        if now - self._measured >= settings.measure_every:
            learner = self._trainer.learner
            self._acceptance = accepted_length(
                learner, self._held_out, self._device, halves=self._halves
            )
            self._measured = monotonic()
        if now - self._told >= 1.0 or progress.steps == 1:
            self._tell(self._report(progress))
            self._told = now

    def _save(self) -> None:
        self._trainer.checkpoint(self._identity).write(self._settings.out)

    def _report(self, progress: TrainingProgress) -> TrainingReport:
        spent = monotonic() - self._begun
        schedule, done = self._settings.schedule, self._settings.schedule.done(progress)
        gained = done - schedule.done(self._first)
        return TrainingReport(
            progress,
            done,
            self._acceptance,
            (progress.tokens - self._first.tokens) / max(spent, 1e-6),
            spent / gained * (1 - done) if gained > 0 else None,
        )
