"""What a draft learns from a batch: the papers' losses, and how well it would draft now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.train.modules import Draft, KeysValues
from engine.train.soft_labels import TargetOutput, likeliest, soft_cross_entropy

STEPS = 5
"""Tokens drafted in a row when the acceptance is estimated."""
_TINY = 1e-5
NOISE_AT_MOST = 512
"""Sequences shorter than this get the noise of one of this length."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A `FeatureBatch` on the device; [batch, n, ...]."""

    tokens: Tensor
    answers: Tensor
    lengths: Tensor
    features: Tensor
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a batch.

    Attributes:
        loss: with gradient.
        rows: tokens that it is the mean of.
        agreeing: at how many of them draft and target hold the same token likeliest.
    """

    loss: Tensor
    rows: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class LossWeights:
    """The parts of a head's loss (algorithm notes: Dovetail's and EAGLE's are the same).

    Attributes:
        regression: of the smooth L1 distance between own and true feature.
        labels: of the cross-entropy against the target's distribution.
        decay: of each further step of drafting on, to the step before.
    """

    regression: float = 1.0
    labels: float = 0.1
    decay: float = 0.8


class Learner(Protocol):
    """Something that learns to draft."""

    @property
    def draft(self) -> Draft:
        """What is trained."""
        ...

    def learn(self, lesson: Lesson, generator: torch.Generator) -> Outcome:
        """The loss of a batch."""
        ...

    def runs(self, lesson: Lesson) -> Tensor:
        """How many of `STEPS` drafted tokens the target would take, at every answer token."""
        ...


class HeadLearner:
    """A feature head.

    Pair t is (feature of token t, token t + 1); what the head makes of it is compared with the
    target's own feature of token t + 1, out of which the target draws token t + 2. Pairs whose
    token t + 2 is part of an answer count.

    Args:
        draft: a head.
        embedding: the target's, [vocab, hidden].
        output: the target's.
        weights: of the loss.
        steps: how often it drafts on from its own outputs while it learns; 1: not at all.
        noise: uniform noise of half-width noise / length is added to the target's features.
    """

    def __init__(
        self,
        draft: Draft,
        embedding: Tensor,
        output: TargetOutput,
        weights: LossWeights,
        steps: int,
        noise: float,
    ) -> None:
        self.draft = draft
        self._embedding, self._output = embedding, output
        self._weights, self._steps, self._noise = weights, steps, noise

    def learn(self, lesson: Lesson, generator: torch.Generator) -> Outcome:
        """See `Learner`."""
        features = lesson.features
        if self._noise:
            widths = self._noise / lesson.lengths.clamp(min=NOISE_AT_MOST)
            noise = torch.rand(features.shape, generator=generator, device=features.device)
            features = features + (2 * noise - 1) * widths[:, None, None]
        loss = torch.zeros((), device=features.device)
        goals, wanted = lesson.hidden[:, 1:-1], lesson.answers[:, 2:]
        rows = agreeing = 0
        for step, output in enumerate(self._unrolled(lesson, features, self._steps)):
            counted = wanted.clone()
            counted[:, :step] = False
            goal, own = goals[counted], output[counted]
            labels, agrees = soft_cross_entropy(
                self.draft.before_output(own), self._output.matrix, goal, self._output
            )
            part = self._weights.labels * labels
            if self._weights.regression:
                distance = functional.smooth_l1_loss(own.float(), goal, reduction="sum")
                part = part + self._weights.regression * distance / goal.shape[1]
            loss = loss + self._weights.decay**step * part / (len(goal) + _TINY)
            if step == 0:
                rows, agreeing = len(goal), int(agrees.sum())
        return Outcome(loss, rows, agreeing)

    @torch.no_grad()
    def runs(self, lesson: Lesson) -> Tensor:
        """See `Learner`; the tokens between are the text's."""
        wanted = lesson.answers[:, 2:]
        goal = likeliest(lesson.hidden[:, 1:-1], self._output.matrix)
        going, runs = wanted, torch.zeros(wanted.shape, device=wanted.device)
        for step, output in enumerate(self._unrolled(lesson, lesson.features, STEPS)):
            own = likeliest(self.draft.before_output(output), self._output.matrix)
            agrees = (own == goal) & wanted
            going = going & _earlier(agrees, step)
            runs += going
        return runs[wanted]

    def _unrolled(self, lesson: Lesson, features: Tensor, steps: int) -> list[Tensor]:
        """Outputs [batch, n - 2, hidden] of each step; in step i the first i pairs mean nothing."""
        embedded = functional.embedding(lesson.tokens[:, 1:-1], self._embedding)
        given, earlier = features[:, :-2], list[list[KeysValues]]()
        outputs = []
        for _ in range(steps):
            output, kept = self.draft.run_head(given, embedded, earlier)
            outputs.append(output)
            earlier.append(kept)
            given = functional.pad(output[:, :-1], (0, 0, 1, 0))
        return outputs


class ModelLearner:
    """A stand-alone model, distilled: forward KL from what the target holds at answer tokens."""

    def __init__(self, draft: Draft, output: TargetOutput) -> None:
        self.draft, self._output = draft, output

    def learn(self, lesson: Lesson, generator: torch.Generator) -> Outcome:
        """See `Learner`."""
        del generator
        wanted = lesson.answers[:, 1:]
        own, goal = (
            self.draft.run_model(lesson.tokens[:, :-1])[wanted],
            lesson.hidden[:, :-1][wanted],
        )
        loss, agrees = soft_cross_entropy(own, self._matrix, goal, self._output)
        return Outcome(loss / (len(goal) + _TINY), len(goal), int(agrees.sum()))

    @torch.no_grad()
    def runs(self, lesson: Lesson) -> Tensor:
        """See `Learner`."""
        wanted = lesson.answers[:, 1:]
        own = likeliest(self.draft.run_model(lesson.tokens[:, :-1]), self._matrix)
        goal = likeliest(lesson.hidden[:, :-1], self._output.matrix)
        agrees = (own == goal) & wanted
        going, runs = wanted, torch.zeros(wanted.shape, device=wanted.device)
        for step in range(STEPS):
            going = going & _earlier(agrees, step)
            runs += going
        return runs[wanted]

    @property
    def _matrix(self) -> Tensor:
        matrix = self.draft.output
        if matrix is None:
            raise ValueError("this is a head")
        return matrix


def _earlier(flags: Tensor, rows: int) -> Tensor:
    """Row t gets what is in row t + rows; behind the end there is nothing."""
    return functional.pad(flags[:, rows:], (0, min(rows, flags.shape[1]))) if rows else flags
