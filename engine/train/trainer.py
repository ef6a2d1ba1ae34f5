"""The training loop: steps, and between them checkpoints, estimates and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic

import torch

from engine.train.batches import Batch
from engine.train.checkpoint import Checkpoint, TrainingProgress
from engine.train.learner import Learner
from engine.train.optimisers import Optimisers
from engine.train.settings import TrainingSettings
from engine.train.targets import TrainingDevice

_LAST_STEP = 0.02
"""Share of the last step in the means that are shown."""


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Progress of a training, for people.

    Attributes:
        done: 0 to 1.
        acceptance_length: as last estimated on held-out texts; None: not yet.
        tokens_per_s: of this run.
        seconds_left: None: it cannot be estimated yet.
    """

    progress: TrainingProgress
    done: float
    acceptance_length: float | None
    tokens_per_s: float
    seconds_left: float | None


class Paused(Exception):
    """The user stopped a training; what it has done is on disk."""

    def __init__(self, progress: TrainingProgress) -> None:
        super().__init__()
        self.progress = progress


class Trainer:
    """Trains one draft.

    Args:
        settings: its schedule, its checkpoints, and where they go.
        learner: computes losses.
        held_out: batches that the acceptance length is estimated on.
        device: where it computes.
        identity: see `Checkpoint`.
        begun: what to resume.

    Attributes:
        progress: of all runs.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        learner: Learner,
        held_out: list[Batch],
        device: TrainingDevice,
        identity: str,
        begun: Checkpoint | None,
    ) -> None:
        self._settings, self._learner, self._held_out = settings, learner, held_out
        self._device, self._identity = device, identity
        self._optimisers = Optimisers(learner.draft, settings.schedule)
        self.progress = TrainingProgress()
        if begun is not None:
            self.progress = begun.progress
            self._optimisers.restore(begun.tensors)
        self._first = self.progress

    def run(
        self,
        batches: Iterator[Batch],
        tell: Callable[[TrainingReport], None],
        stopped: Callable[[], bool],
    ) -> None:
        """Train until the schedule's end.

        Args:
            batches: endless, from `progress.place` on.
            tell: told about once a second.
            stopped: asked after every step.

        Raises:
            Paused: `stopped` said so.
            UserFixable: a checkpoint could not be written.
        """
        settings = self._settings
        begun = saved = told = monotonic()
        measured: float | None = None
        acceptance: float | None = None
        self._learner.draft.train()
        while self._done() < 1.0:
            self._step(batches)
            if stopped():
                self._save()
                raise Paused(self.progress)
            now, steps = monotonic(), self.progress.steps
            by_steps = settings.every_steps and steps % settings.every_steps == 0
            if by_steps or now - saved >= settings.every:
                self._save()
                saved = now
            if measured is None or now - measured >= settings.measure_every:
                acceptance = self.acceptance_length()
                measured = monotonic()
            if now - told >= 1.0 or steps == 1:
                tell(self._report(acceptance, monotonic() - begun))
                told = now

    def acceptance_length(self) -> float:
        """Estimate tokens per verified round with chains of `STEPS`, on the held-out texts."""
        self._learner.draft.eval()
        total, rows = 0.0, 0
        for batch in self._held_out:
            with self._device.autocast():
                accepted = self._learner.accepted(batch.to(self._device.device))
            total += float(accepted.sum())
            rows += len(accepted)
        self._learner.draft.train()
        return 1 + total / max(rows, 1)

    def _step(self, batches: Iterator[Batch]) -> None:
        progress, schedule, begun = self.progress, self._settings.schedule, monotonic()
        batch, device = next(batches), self._device.device
        generator = torch.Generator(device)
        generator.manual_seed((self._settings.seed << 32) + progress.steps)
        with self._device.autocast():
            outcome = self._learner.learn(batch.to(device), generator)
        if outcome.rows:
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            if schedule.clip:
                torch.nn.utils.clip_grad_value_(self._learner.draft.parameters(), schedule.clip)
            self._optimisers.step(schedule.factor(progress.steps, self._done()))
        loss, agreement = float(outcome.loss.detach()), outcome.agreeing / max(outcome.rows, 1)
        weight = max(_LAST_STEP, 1 / (progress.steps + 1))
        self.progress = replace(
            progress,
            steps=progress.steps + 1,
            tokens=progress.tokens + batch.count,
            seconds=progress.seconds + monotonic() - begun,
            place=batch.next,
            loss=progress.loss + weight * (loss - progress.loss),
            agreement=progress.agreement + weight * (agreement - progress.agreement),
        )

    def _done(self, progress: TrainingProgress | None = None) -> float:
        progress = progress or self.progress
        return self._settings.schedule.done(progress.tokens, progress.seconds)

    def _save(self) -> None:
        tensors = self._optimisers.tensors()
        Checkpoint(self._identity, self.progress, tensors).write(self._settings.out)

    def _report(self, acceptance: float | None, spent: float) -> TrainingReport:
        done = self._done()
        gained = done - self._done(self._first)
        return TrainingReport(
            self.progress,
            done,
            acceptance,
            (self.progress.tokens - self._first.tokens) / max(spent, 1e-6),
            spent / gained * (1 - done) if gained > 0 else None,
        )
