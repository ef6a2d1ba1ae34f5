"""Cross-entropy against the target's own distribution, a stretch of rows at a time.

Gradients are computed together with the loss, stretch by stretch, and no logits are kept: with a
vocabulary of 150,000 those of one batch would not fit into memory twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

STRETCH = 1 << 22
"""Logits at a time."""


@dataclass(frozen=True, slots=True)
class TargetOutput:
    """How the target's hidden states become logits of the tokens that the draft can propose.

    Attributes:
        matrix: [rows, hidden].
        softcap: logits are softcap * tanh(logits / softcap); 0: they are as they are.
    """

    matrix: Tensor
    softcap: float = 0.0

    def logits(self, hidden: Tensor) -> Tensor:
        """[n, hidden] -> fp32 [n, rows]."""
        logits = (hidden.to(self.matrix.dtype) @ self.matrix.t()).float()
        return torch.tanh(logits / self.softcap) * self.softcap if self.softcap else logits

    def probs(self, hidden: Tensor) -> Tensor:
        """[n, hidden] -> probabilities [n, rows] in the matrix's dtype.

        They are the target's among the tokens that the draft can propose: what it should learn is
        their proportions, whatever the rest weighs.
        """
        found = torch.empty(len(hidden), len(self.matrix), dtype=self.matrix.dtype)
        found = found.to(hidden.device)
        for part in _stretches(len(hidden), len(self.matrix)):
            found[part] = self.logits(hidden[part]).softmax(1).to(found.dtype)
        return found


class _SoftCrossEntropy(torch.autograd.Function):
    """Sum over rows; see `soft_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - as torch declares it
        hidden: Tensor,
        matrix: Tensor,
        goal: Tensor,
    ) -> tuple[Tensor, Tensor]:
        trains_matrix = ctx.needs_input_grad[1]
        held = matrix.to(goal.dtype)
        grad_hidden = torch.empty_like(hidden)
        grad_matrix = torch.zeros_like(matrix) if trains_matrix else None
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        agreeing = []
        for part in _stretches(len(hidden), len(matrix)):
            own, wanted = hidden[part].to(goal.dtype), goal[part]
            given = (own @ held.t()).float()
            agreeing.append(given.argmax(1) == wanted.argmax(1))
            scale = given.logsumexp(1, keepdim=True)
            total += scale.sum().double() - (wanted * given).sum().double()
            error = given.sub_(scale).exp_().sub_(wanted).to(goal.dtype)
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


def _stretches(rows: int, width: int) -> list[slice]:
    count = max(STRETCH // width, 16)
    return [slice(start, start + count) for start in range(0, rows, count)]


def likeliest(hidden: Tensor, matrix: Tensor) -> Tensor:
    """The row of the highest logit, for hidden states [..., d] and a matrix [rows, d]."""
    flat = hidden.flatten(0, -2).to(matrix.dtype)
    parts = _stretches(len(flat), len(matrix))
    return torch.cat([(flat[part] @ matrix.t()).argmax(1) for part in parts]).view(
        hidden.shape[:-1]
    )


def soft_cross_entropy(hidden: Tensor, matrix: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
    """-sum p_target log p_draft, summed over rows.

    Args:
        hidden: the draft's, [n, d], with gradient.
        matrix: the draft's output matrix [rows, d], with gradient where it is trained.
        goal: probabilities [n, rows]; its dtype is that of the products.

    Returns:
        The sum, and whether both hold the same token likeliest, bool [n].
    """
    total, agrees = _SoftCrossEntropy.apply(hidden, matrix, goal)  # type: ignore[no-untyped-call]
    return total, agrees
