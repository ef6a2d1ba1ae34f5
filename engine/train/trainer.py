"""The training loop: steps, and between them checkpoints, estimates and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic

import torch
from torch import Tensor, nn

from engine.train.batches import Batch
from engine.train.checkpoint import Checkpoint, TrainingProgress
from engine.train.learner import Learner
from engine.train.settings import Schedule, TrainingSettings
from engine.train.targets import TrainingDevice

_BETAS = (0.9, 0.95)
_LAST_STEP = 0.02
"""Share of the last step in the means that are shown."""


class Optimisers:
    """Muon and AdamW, used as one optimiser.

    Muon (Jordan and others, 2024) brings each step of a matrix to singular values of about 1; the
    embedding, which is looked up and not multiplied with, does better with AdamW.

    Args:
        model: whose parameters.
        schedule: its rates and weight decay.
    """

    def __init__(self, model: nn.Module, schedule: Schedule) -> None:
        self._named = dict(model.named_parameters())
        blocks, matrices, vectors = list[Tensor](), list[Tensor](), list[Tensor]()
        for name, one in self._named.items():
            if one.dim() < 2:
                vectors.append(one)
            elif schedule.muon and one.dim() == 2 and _is_of_block(name):
                blocks.append(one)
            else:
                matrices.append(one)
        self._rates: list[tuple[torch.optim.Optimizer, float]] = []
        if blocks:
            muon = torch.optim.Muon(
                blocks, lr=schedule.muon, weight_decay=schedule.decay, adjust_lr_fn="original"
            )
            self._rates.append((muon, schedule.muon))
        groups = [
            {"params": matrices, "weight_decay": 0.0 if schedule.muon else schedule.decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        adam = torch.optim.AdamW(groups, lr=schedule.rate, betas=_BETAS)
        self._rates.append((adam, schedule.rate))
        self._of = {
            one: optimiser
            for optimiser, _ in self._rates
            for group in optimiser.param_groups
            for one in group["params"]
        }

    def step(self, factor: float) -> None:
        """Make one step at `factor` of the rates, and delete the gradients."""
        for optimiser, rate in self._rates:
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Copy weights, and states as "NAME of the state:NAME of the weight", to the CPU."""
        found = dict[str, Tensor](self._named)
        for name, one in self._named.items():
            for key, value in self._of[one].state.get(one, {}).items():
                if isinstance(value, Tensor):
                    found[f"{key}:{name}"] = value
        return {name: one.detach().to("cpu", copy=True).contiguous() for name, one in found.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy back what `tensors` gave."""
        with torch.no_grad():
            for name, one in self._named.items():
                one.copy_(tensors[name])
        for key, value in tensors.items():
            state, _, name = key.partition(":")
            if name:
                one = self._named[name]
                device = "cpu" if state == "step" else one.device
                self._of[one].state[one][state] = value.to(device, copy=True)


def _is_of_block(name: str) -> bool:
    return ".layers." in name or name.startswith("fusion.")


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
