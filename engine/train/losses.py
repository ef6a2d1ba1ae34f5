"""Cross-entropy against the target's distribution, over the tokens that a draft can propose.

Gradients are computed together with the loss, a slice of rows at a time, and no logits are kept:
with a vocabulary of 150,000 those of one batch would not fit into memory twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SLICE = 1 << 22
"""Logits at a time."""


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
