"""What a draft learns from a batch: the papers' losses, and how well it would draft now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.train.batches import Batch
from engine.train.modules import DraftModule, KeysValues
from engine.train.soft_labels import TargetOutput, likeliest, soft_cross_entropy

STEPS = 5
"""Tokens drafted in a row when the acceptance is estimated."""
_TINY = 1e-5
NOISE_AT_MOST = 512
"""Sequences shorter than this get the noise of one of this length."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
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
    """The parts of a head's loss.

    Dovetail and EAGLE weigh features by 1 and labels by 0.1. A head that learns from few tokens
    drafts better when the labels lead, as EAGLE-3 found too.

    Attributes:
        regression: of the smooth L1 distance between own and true feature.
        labels: of the cross-entropy against the target's distribution.
        decay: of each further step of drafting on, to the step before.
    """

    regression: float = 0.1
    labels: float = 1.0
    decay: float = 0.8


@dataclass(frozen=True, slots=True)
class DraftVocabulary:
    """The tokens that a draft can propose.

    Attributes:
        ids: int64 [rows], ascending; None: all of the target's.
        target: the target's output, whole.
        output: the target's output for these tokens.
    """

    ids: Tensor | None
    target: TargetOutput
    output: TargetOutput

    @classmethod
    def of(cls, target: TargetOutput, ids: Tensor | None) -> DraftVocabulary:
        """Some of the target's tokens, or all."""
        if ids is None:
            return cls(None, target, target)
        return cls(ids, target, TargetOutput(target.matrix[ids].contiguous(), target.softcap))

    def tokens(self, rows: Tensor) -> Tensor:
        """Token ids of rows."""
        return rows if self.ids is None else self.ids[rows]

    def drafted(self, hidden: Tensor, matrix: Tensor) -> Tensor:
        """The tokens that a draft proposes, for its states [..., d] and its matrix [rows, d]."""
        return self.tokens(likeliest(hidden, matrix))

    def wanted(self, hidden: Tensor) -> Tensor:
        """The tokens that the target holds likeliest, of all that there are."""
        return likeliest(hidden, self.target.matrix)


class Learner(Protocol):
    """Something that learns to draft."""

    @property
    def draft(self) -> DraftModule:
        """What is trained."""
        ...

    def learn(self, batch: Batch, generator: torch.Generator) -> BatchOutcome:
        """The loss of a batch."""
        ...

    def runs(self, batch: Batch) -> Tensor:
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
        vocabulary: what it can propose.
        weights: of the loss.
        steps: how often it drafts on from its own outputs while it learns; 1: not at all.
        noise: uniform noise of half-width noise / length is added to the target's features.
    """

    def __init__(
        self,
        draft: DraftModule,
        embedding: Tensor,
        vocabulary: DraftVocabulary,
        weights: LossWeights,
        steps: int,
        noise: float,
    ) -> None:
        self.draft = draft
        self._embedding, self._vocabulary = embedding, vocabulary
        self._weights, self._steps, self._noise = weights, steps, noise

    def learn(self, batch: Batch, generator: torch.Generator) -> BatchOutcome:
        """See `Learner`."""
        features = batch.features
        if self._noise:
            widths = self._noise / batch.lengths.clamp(min=NOISE_AT_MOST)
            noise = torch.rand(features.shape, generator=generator, device=features.device)
            features = features + (2 * noise - 1) * widths[:, None, None]
        loss = torch.zeros((), device=features.device)
        goals, wanted = batch.hidden[:, 1:-1], batch.answers[:, 2:]
        rows = agreeing = 0
        probs = self._vocabulary.output.probs(goals[wanted])
        for step, output in enumerate(self._unrolled(batch, features, self._steps)):
            counted = wanted.clone()
            counted[:, :step] = False
            goal, own = goals[counted], output[counted]
            labels, agrees = soft_cross_entropy(
                self.draft.before_output(own), self._matrix, probs[counted[wanted]]
            )
            part = self._weights.labels * labels
            if self._weights.regression:
                distance = functional.smooth_l1_loss(own.float(), goal, reduction="sum")
                part = part + self._weights.regression * distance / goal.shape[1]
            loss = loss + self._weights.decay**step * part / (len(goal) + _TINY)
            if step == 0:
                rows, agreeing = len(goal), int(agrees.sum())
        return BatchOutcome(loss, rows, agreeing)

    @torch.no_grad()
    def runs(self, batch: Batch) -> Tensor:
        """See `Learner`; the tokens between are the text's."""
        wanted = batch.answers[:, 2:]
        goal = self._vocabulary.wanted(batch.hidden[:, 1:-1])
        going, runs = wanted, torch.zeros(wanted.shape, device=wanted.device)
        for step, output in enumerate(self._unrolled(batch, batch.features, STEPS)):
            own = self._vocabulary.drafted(self.draft.before_output(output), self._matrix)
            agrees = (own == goal) & wanted
            going = going & _earlier(agrees, step)
            runs += going
        return runs[wanted]

    @property
    def _matrix(self) -> Tensor:
        own = self.draft.output
        return self._vocabulary.output.matrix if own is None else own

    def _unrolled(self, batch: Batch, features: Tensor, steps: int) -> list[Tensor]:
        """Outputs [batch, n - 2, hidden] of each step; in step i the first i pairs mean nothing."""
        embedded = functional.embedding(batch.tokens[:, 1:-1], self._embedding)
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

    def __init__(self, draft: DraftModule, vocabulary: DraftVocabulary) -> None:
        self.draft, self._vocabulary = draft, vocabulary

    def learn(self, batch: Batch, generator: torch.Generator) -> BatchOutcome:
        """See `Learner`."""
        del generator
        wanted = batch.answers[:, 1:]
        own, goal = (
            self.draft.run_model(batch.tokens[:, :-1])[wanted],
            batch.hidden[:, :-1][wanted],
        )
        probs = self._vocabulary.output.probs(goal)
        loss, agrees = soft_cross_entropy(own, self._matrix, probs)
        return BatchOutcome(loss / (len(goal) + _TINY), len(goal), int(agrees.sum()))

    @torch.no_grad()
    def runs(self, batch: Batch) -> Tensor:
        """See `Learner`."""
        wanted = batch.answers[:, 1:]
        own = self._vocabulary.drafted(self.draft.run_model(batch.tokens[:, :-1]), self._matrix)
        goal = self._vocabulary.wanted(batch.hidden[:, :-1])
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
