"""The loop: a batch of features, a loss, a step; checkpoints and progress on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

import torch

from engine.train.batches import Batch
from engine.train.checkpoint import Checkpoint, TrainingProgress
from engine.train.learners import Learner
from engine.train.optimisers import LearningPace, Optimisers

_FOLLOWING = 0.02
"""Weight of the last step in the means that are shown."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long, and how fast.

    Attributes:
        tokens, seconds: the end, whichever comes first; None: not by this.
        rate: highest learning rate; it rises over `warm_up` steps, then falls in a line to 0.
        muon: highest rate of Muon for the matrices of the blocks, which a small draft learns far
            faster with; None: AdamW learns everything, as the papers' authors do it.
        warm_up: steps; at most a twentieth of the tokens are spent on it where these are given.
        clip: gradients are clipped to +- this, number by number; 0: not at all.
        decay: weight decay of matrices; with Muon only of the blocks' own.
    """

    tokens: int | None = None
    seconds: float | None = None
    rate: float = 3e-5
    muon: float | None = None
    warm_up: int = 2000
    clip: float = 0.5
    decay: float = 0.0

    def done(self, progress: TrainingProgress) -> float:
        """How much of it is behind, 0 to 1."""
        parts = [0.0]
        if self.tokens is not None:
            parts.append(progress.tokens / self.tokens)
        if self.seconds is not None:
            parts.append(progress.seconds / self.seconds)
        return min(max(parts), 1.0)

    def factor(self, progress: TrainingProgress) -> float:
        """What the rates are multiplied with in the next step."""
        done = self.done(progress)
        rising = (progress.steps + 1) / max(self.warm_up, 1)
        if progress.steps:
            rising = max(rising, 20 * done)
        return min(rising, 1.0) * (1 - done)


class Trainer:
    """Trains one draft.

    Args:
        learner: what learns.
        schedule: how.
        device: where.
        seed: of the noise.
        halves: whether products are in bf16.
        begun: what to go on from.
    """

    def __init__(
        self,
        learner: Learner,
        schedule: Schedule,
        device: torch.device,
        seed: int,
        *,
        halves: bool = False,
        begun: Checkpoint | None = None,
    ) -> None:
        self.learner, self._schedule, self._device = learner, schedule, device
        self._seed, self._halves = seed, halves
        self._named = dict(learner.draft.named_parameters())
        pace = LearningPace(schedule.rate, schedule.muon, schedule.decay)
        self._optimisers = Optimisers(learner.draft, pace)
        self.progress = TrainingProgress()
        if begun is not None:
            self.progress = begun.progress
            self._optimisers.restore(begun.tensors)

    def run(
        self, next_batch: Callable[[], Batch], after_step: Callable[[TrainingProgress], None]
    ) -> TrainingProgress:
        """Until the schedule's end; `after_step` may raise to end it before."""
        self.learner.draft.train()
        while self._schedule.done(self.progress) < 1.0:
            begun = monotonic()
            self._step(next_batch(), begun)
            after_step(self.progress)
        return self.progress

    def checkpoint(self, identity: str) -> Checkpoint:
        """As it is now."""
        return Checkpoint(identity, self.progress, self._optimisers.tensors())

    def _step(self, batch: Batch, begun: float) -> None:
        progress = self.progress
        generator = torch.Generator(self._device)
        generator.manual_seed((self._seed << 32) + progress.steps)
        with autocast(self._device, halves=self._halves):
            outcome = self.learner.learn(batch.to(self._device), generator)
        if outcome.rows:
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            if self._schedule.clip:
                torch.nn.utils.clip_grad_value_(self._named.values(), self._schedule.clip)
            self._optimisers.step(self._schedule.factor(progress))
        loss, agreement = float(outcome.loss.detach()), outcome.agreeing / max(outcome.rows, 1)
        weight = max(_FOLLOWING, 1 / (progress.steps + 1))
        self.progress = replace(
            progress,
            steps=progress.steps + 1,
            tokens=progress.tokens + batch.count,
            seconds=progress.seconds + monotonic() - begun,
            place=batch.next,
            loss=progress.loss + weight * (loss - progress.loss),
            agreement=progress.agreement + weight * (agreement - progress.agreement),
        )


def autocast(device: torch.device, *, halves: bool) -> torch.autocast:
    """Products in bf16, sums and weights in fp32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=halves)


def accepted_length(
    learner: Learner, batches: list[Batch], device: torch.device, *, halves: bool
) -> float:
    """Tokens per verified round that a chain of `STEPS` would give, estimated on these texts."""
    learner.draft.eval()
    total, rows = 0.0, 0
    for batch in batches:
        with autocast(device, halves=halves):
            runs = learner.runs(batch.to(device))
        total += float(runs.sum())
        rows += len(runs)
    learner.draft.train()
    return 1 + total / max(rows, 1)
