"""Compute a draft's loss on a batch, and how well it would draft now.

Losses are cross-entropies against the target's distribution, over the tokens that a draft can
propose. Their gradients are computed together with them, a slice of rows at a time, and no logits
are kept: with a vocabulary of 150,000 those of one batch would not fit into memory twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.train.batches import Batch
from engine.train.modules import DraftModule, KeyValues

SLICE = 1 << 22
"""Logits at a time."""
STEPS = 5
"""Tokens drafted in a row when the acceptance is estimated."""
NOISE_AT_MOST = 512
"""Sequences shorter than this get the noise of one of this length."""
_TINY = 1e-5


class DraftVocabulary:
    """The tokens that a draft can propose, and the target's output matrix over them.

    Args:
        matrix: the target's output matrix, [vocab, hidden].
        ids: int64 [rows], ascending; None: all tokens of the target.
        softcap: the target's logits are softcap * tanh(logits / softcap); 0: they are uncapped.

    Attributes:
        ids: as given.
        rows: the target's output rows of these tokens, [rows, hidden].
    """

    def __init__(self, matrix: Tensor, ids: Tensor | None = None, softcap: float = 0.0) -> None:
        self._matrix, self.ids, self._softcap = matrix, ids, softcap
        self.rows = matrix if ids is None else matrix[ids].contiguous()

    def probs(self, hidden: Tensor) -> Tensor:
        """Return the target's probabilities among the tokens that the draft can propose.

        The draft learns their proportions, however probable all others are.

        Args:
            hidden: of the target, [n, hidden].

        Returns:
            [n, rows], in the matrix's dtype.
        """
        found = hidden.new_empty(len(hidden), len(self.rows), dtype=self.rows.dtype)
        for part in _slices(len(hidden), len(self.rows)):
            logits = (hidden[part].to(self.rows.dtype) @ self.rows.t()).float()
            if self._softcap:
                logits = torch.tanh(logits / self._softcap) * self._softcap
            found[part] = logits.softmax(1).to(found.dtype)
        return found

    def drafted(self, hidden: Tensor, matrix: Tensor) -> Tensor:
        """Return the token ids that a draft proposes, for its states [..., d].

        Args:
            hidden: what the draft's output matrix takes.
            matrix: the draft's output matrix, [rows, d].
        """
        found = _likeliest(hidden, matrix)
        return found if self.ids is None else self.ids[found]

    def wanted(self, hidden: Tensor) -> Tensor:
        """Return the target's likeliest token ids among all, for its states [..., hidden]."""
        return _likeliest(hidden, self._matrix)


def soft_cross_entropy(hidden: Tensor, matrix: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return -sum p_target log p_draft, summed over rows.

    Args:
        hidden: of the draft, [n, d], with gradient.
        matrix: the draft's output matrix [rows, d], with gradient where it is trained.
        probs: of the target, [n, rows]; products are computed in their dtype.

    Returns:
        The sum, and at which rows draft and target find the same token likeliest, bool [n].
    """
    total, agrees = _SoftCrossEntropy.apply(hidden, matrix, probs)  # type: ignore[no-untyped-call]
    return total, agrees


class _SoftCrossEntropy(torch.autograd.Function):
    """Implements `soft_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - as torch declares it
        hidden: Tensor,
        matrix: Tensor,
        probs: Tensor,
    ) -> tuple[Tensor, Tensor]:
        trains_matrix = ctx.needs_input_grad[1]
        held = matrix.to(probs.dtype)
        grad_hidden = torch.empty_like(hidden)
        grad_matrix = torch.zeros_like(matrix) if trains_matrix else None
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        agreeing = []
        for part in _slices(len(hidden), len(matrix)):
            own, wanted = hidden[part].to(probs.dtype), probs[part]
            logits = (own @ held.t()).float()
            agreeing.append(logits.argmax(1) == wanted.argmax(1))
            scale = logits.logsumexp(1, keepdim=True)
            total += scale.sum().double() - (wanted * logits).sum().double()
            error = logits.sub_(scale).exp_().sub_(wanted).to(probs.dtype)
            grad_hidden[part] = (error @ held).to(hidden.dtype)
            if grad_matrix is not None:
                grad_matrix += error.t() @ own
        ctx.save_for_backward(grad_hidden, grad_matrix)
        agrees = torch.cat(agreeing) if agreeing else torch.zeros(0, dtype=torch.bool)
        ctx.mark_non_differentiable(agrees)
        return total.float(), agrees

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        grad: Tensor,
        _: Tensor,
    ) -> tuple[Tensor, Tensor | None, None]:
        grad_hidden, grad_matrix = ctx.saved_tensors
        return grad_hidden * grad, None if grad_matrix is None else grad_matrix * grad, None


def _likeliest(hidden: Tensor, matrix: Tensor) -> Tensor:
    """Return the row of the highest logit, for states [..., d] and a matrix [rows, d]."""
    flat = hidden.flatten(0, -2).to(matrix.dtype)
    parts = _slices(len(flat), len(matrix))
    found = torch.cat([(flat[part] @ matrix.t()).argmax(1) for part in parts])
    return found.view(hidden.shape[:-1])


def _slices(rows: int, width: int) -> list[slice]:
    count = max(SLICE // width, 16)
    return [slice(start, start + count) for start in range(0, rows, count)]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Loss of a batch.

    Attributes:
        loss: with gradient.
        rows: tokens that it is the mean of.
        agreeing: at how many of them draft and target find the same token likeliest.
    """

    loss: Tensor
    rows: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Factors of the parts of a draft's loss.

    Dovetail and EAGLE weigh features by 1 and labels by 0.1. A head that learns from few tokens
    drafts better when the labels lead, as EAGLE-3 found too.

    Attributes:
        regression: of the smooth L1 distance between the head's feature and the target's.
        labels: of the cross-entropy against the target's distribution.
        decay: of each further step of drafting, relative to the step before.
    """

    regression: float = 0.1
    labels: float = 1.0
    decay: float = 0.8


class Learner:
    """Computes what a draft learns from batches.

    A head's pair t is (feature of token t, token t + 1). Its output is compared with the target's
    own feature of token t + 1, from which the target draws token t + 2. A stand-alone model is
    distilled: its output at token t is compared with what the target draws token t + 1 from. Only
    tokens of answers count.

    Args:
        draft: what is trained.
        embedding: the target's, [vocab, hidden]; heads take it.
        vocabulary: what the draft can propose.
        weights: of a head's loss; a model has no features to compare.
        steps: tokens that a head drafts in a row from its own outputs while it learns.
        noise: uniform noise of half-width noise / length is added to the features that a head
            takes.
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
        self._ahead = 2 if draft.is_head else 1

    def learn(self, batch: Batch, generator: torch.Generator) -> BatchOutcome:
        """Return the loss of a batch; the generator draws the noise."""
        features = batch.features
        if self._noise and self.draft.is_head:
            widths = self._noise / batch.lengths.clamp(min=NOISE_AT_MOST)
            noise = torch.rand(features.shape, generator=generator, device=features.device)
            features = features + (2 * noise - 1) * widths[:, None, None]
        loss = torch.zeros((), device=features.device)
        goals, wanted = self._goals(batch)
        rows = agreeing = 0
        probs = self._vocabulary.probs(goals[wanted])
        for step, output in enumerate(self._unrolled(batch, features, self._steps)):
            counted = wanted.clone()
            counted[:, :step] = False
            goal, own = goals[counted], output[counted]
            labels, agrees = soft_cross_entropy(
                self.draft.before_output(own),
                self._matrix,
                probs[counted[wanted]] if step else probs,
            )
            part = self._weights.labels * labels
            if self._weights.regression and self.draft.is_head:
                distance = functional.smooth_l1_loss(own.float(), goal, reduction="sum")
                part = part + self._weights.regression * distance / goal.shape[1]
            loss = loss + self._weights.decay**step * part / (len(goal) + _TINY)
            if step == 0:
                rows, agreeing = len(goal), int(agrees.sum())
        return BatchOutcome(loss, rows, agreeing)

    @torch.no_grad()
    def accepted(self, batch: Batch) -> Tensor:
        """Return how many of `STEPS` drafted tokens the target would accept, at each answer token.

        The tokens that it drafts behind are those of the text.
        """
        goals, wanted = self._goals(batch)
        goal = self._vocabulary.wanted(goals)
        agrees = [
            (self._vocabulary.drafted(self.draft.before_output(output), self._matrix) == goal)
            & wanted
            for output in self._unrolled(batch, batch.features, STEPS)
        ]
        going, count = wanted, torch.zeros(wanted.shape, device=wanted.device)
        for step in range(STEPS):
            going = going & _earlier(agrees[min(step, len(agrees) - 1)], step)
            count += going
        return count[wanted]

    @property
    def _matrix(self) -> Tensor:
        own = self.draft.output
        return self._vocabulary.rows if own is None else own

    def _goals(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the target's states [batch, n, hidden] to learn, and which of them count."""
        return batch.hidden[:, self._ahead - 1 : -1], batch.answers[:, self._ahead :]

    def _unrolled(self, batch: Batch, features: Tensor, steps: int) -> list[Tensor]:
        """Return outputs [batch, n, hidden] of each step; a model has one step.

        The first i pairs of step i mean nothing.
        """
        if not self.draft.is_head:
            return [self.draft.run_model(batch.tokens[:, :-1])]
        embedded = functional.embedding(batch.tokens[:, 1:-1], self._embedding)
        given, earlier = features[:, :-2], list[list[KeyValues]]()
        outputs = []
        for _ in range(steps):
            output, kept = self.draft.run_head(given, embedded, earlier)
            outputs.append(output)
            earlier.append(kept)
            given = functional.pad(output[:, :-1], (0, 0, 1, 0))
        return outputs


def _earlier(flags: Tensor, rows: int) -> Tensor:
    """Move flags [batch, n] `rows` places to the front; False follows the last one."""
    return functional.pad(flags[:, rows:], (0, min(rows, flags.shape[1]))) if rows else flags
