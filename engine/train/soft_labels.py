"""Cross-entropy against the target's own distribution, a stretch of rows at a time.

With a vocabulary of 150,000 the logits of one batch would not fit into memory twice; so gradients
are computed together with the loss, stretch by stretch, and no logits are kept.
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
    """How the target's hidden states become logits.

    Attributes:
        matrix: [vocab, hidden].
        softcap: logits are softcap * tanh(logits / softcap); 0: they are as they are.
    """

    matrix: Tensor
    softcap: float = 0.0

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, hidden] -> fp32 [rows, vocab]."""
        logits = (hidden.to(self.matrix.dtype) @ self.matrix.t()).float()
        return torch.tanh(logits / self.softcap) * self.softcap if self.softcap else logits


class _SoftCrossEntropy(torch.autograd.Function):
    """Sum over rows; see `soft_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - as torch declares it
        hidden: Tensor,
        matrix: Tensor,
        goal: Tensor,
        target: TargetOutput,
    ) -> tuple[Tensor, Tensor]:
        rows = max(STRETCH // len(matrix), 16)
        trains_matrix = ctx.needs_input_grad[1]
        grad_hidden = torch.empty_like(hidden)
        grad_matrix = torch.zeros_like(matrix) if trains_matrix else None
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        agreeing = []
        for start in range(0, len(hidden), rows):
            own = hidden[start : start + rows].to(matrix.dtype)
            wanted = target.logits(goal[start : start + rows])
            given = (own @ matrix.t()).float()
            agreeing.append(given.argmax(1) == wanted.argmax(1))
            wanted = wanted.softmax(1)
            total -= (wanted * given.log_softmax(1)).sum().double()
            error = given.softmax(1).sub_(wanted).to(matrix.dtype)
            grad_hidden[start : start + rows] = error @ matrix
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
    ) -> tuple[Tensor, Tensor | None, None, None]:
        grad_hidden, grad_matrix = ctx.saved_tensors
        return grad_hidden * grad, None if grad_matrix is None else grad_matrix * grad, None, None


def likeliest(hidden: Tensor, matrix: Tensor) -> Tensor:
    """The token of the highest logit, for hidden states [..., d] and a matrix [vocab, d]."""
    rows = max(STRETCH // len(matrix), 16)
    flat = hidden.flatten(0, -2).to(matrix.dtype)
    stretches = [flat[start : start + rows] for start in range(0, len(flat), rows)]
    found = torch.cat([(stretch @ matrix.t()).argmax(1) for stretch in stretches])
    return found.view(hidden.shape[:-1])


def soft_cross_entropy(
    hidden: Tensor, matrix: Tensor, goal: Tensor, target: TargetOutput
) -> tuple[Tensor, Tensor]:
    """-sum p_target log p_draft, summed over rows.

    Args:
        hidden: the draft's, [rows, d], with gradient.
        matrix: the draft's output matrix [vocab, d], with gradient where it is trained.
        goal: the target's hidden states [rows, hidden], after its final norm.
        target: what makes logits of them.

    Returns:
        The sum, and whether both hold the same token likeliest, bool [rows].
    """
    total, agrees = _SoftCrossEntropy.apply(hidden, matrix, goal, target)  # type: ignore[no-untyped-call]
    return total, agrees
