"""Sampler: logits -> token, a pure function of (logits, tokens so far, position)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.segment import Floats
from engine.decode.noise import gumbel, gumbel_row
from engine.request import SamplingParams

WHOLE_ROW_LIMIT = 32768
"""Up to this vocabulary the noise of a position is computed once for all tokens and kept."""


class InvalidLogits(ArithmeticError):
    """The target produced NaN or infinite logits."""


class Sampler:
    """Draws the target's next token, and ranks a draft's candidates with the same noise.

    The draw is argmax(log p / T + Gumbel noise) over the tokens that the filters keep; ties go to
    the lowest id. Because the noise belongs to (seed, position, id), the draw depends on the
    target's logits alone (drafter-invariant speculative decoding, arXiv 2408.07978).

    Args:
        params: the sampling parameters.
        answer_start: position where the answer begins; presence and frequency penalties count
            the tokens from there on.
        share_noise: whether `rank` uses the target's noise; off only to measure what it brings.
    """

    def __init__(
        self, params: SamplingParams, answer_start: int = 0, *, share_noise: bool = True
    ) -> None:
        self.params = params
        self._answer_start = answer_start
        self._share_noise = share_noise
        self._penalised = (
            params.repetition_penalty != 1
            or params.presence_penalty != 0
            or params.frequency_penalty != 0
        )

    def draw(self, logits: Floats, tokens: Sequence[int], path: Sequence[int] = ()) -> int:
        """The token that follows tokens + path.

        Args:
            logits: fp32 [vocab], the target's at that place.
            tokens: committed tokens, prompt included.
            path: tokens of the tree between them and the place.

        Raises:
            InvalidLogits: the logits are not finite.
        """
        scores: NDArray[np.floating] = logits
        if self._penalised:
            scores = self._penalise(logits.astype(np.float64), tokens, path)
        best = int(scores.argmax())
        if not np.isfinite(scores[best]):
            raise InvalidLogits("the model's output is not a number")
        if self.params.greedy:
            return best
        relative = (scores - scores[best]).astype(np.float64)
        kept = self._filter(relative)
        position = len(tokens) + len(path)
        if kept is None:
            relative /= self.params.temperature
            return int((relative + self._noise(position, len(logits))).argmax())
        noise = self._noise(position, len(logits), kept)
        return int(kept[(relative[kept] / self.params.temperature + noise).argmax()])

    def rank(self, logits: Floats, position: int) -> Floats:
        """How a draft's candidates rank at `position`: fp32 log weights, one distribution per row.

        Args:
            logits: fp32 [rows, vocab], the draft's.
            position: position of the drafted tokens.
        """
        weights = logits.copy()
        if not self.params.greedy:
            weights /= np.float32(min(max(self.params.temperature, 1e-4), 1e4))  # stay in fp32
            if self._share_noise:
                weights += self._noise(position, logits.shape[1]).astype(np.float32)
        weights -= weights.max(axis=1, keepdims=True)
        weights -= np.log(np.exp(weights).sum(axis=1, keepdims=True))
        return weights

    def _noise(
        self, position: int, vocab: int, ids: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        if vocab <= WHOLE_ROW_LIMIT:
            row = gumbel_row(self.params.seed, position, vocab)
            return row if ids is None else row[ids]
        wanted = np.arange(vocab, dtype=np.int64) if ids is None else ids
        return gumbel(self.params.seed, position, wanted)

    def _penalise(
        self, scores: NDArray[np.float64], tokens: Sequence[int], path: Sequence[int]
    ) -> NDArray[np.float64]:
        params = self.params
        history = np.array([*tokens, *path], dtype=np.int64)
        seen = np.unique(history)
        if params.repetition_penalty != 1:
            known = scores[seen]
            factor = params.repetition_penalty
            scores[seen] = np.where(known > 0, known / factor, known * factor)
        answer = history[self._answer_start :]
        if len(answer):
            ids, counts = np.unique(answer, return_counts=True)
            scores[ids] -= params.presence_penalty + params.frequency_penalty * counts
        return scores

    def _filter(self, relative: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Ids kept by top-k, top-p and min-p, ascending; None when all are."""
        params = self.params
        top_k = params.top_k if 0 < params.top_k < len(relative) else 0
        if not top_k and params.top_p == 1 and params.min_p == 0:
            return None
        order = np.argsort(-relative, kind="stable")
        if top_k:
            order = order[:top_k]
        weights = np.exp(relative[order])
        if params.top_p < 1:
            cumulative = np.cumsum(weights)
            inside = int(np.searchsorted(cumulative, params.top_p * cumulative[-1])) + 1
            order, weights = order[:inside], weights[:inside]
        if params.min_p > 0:
            order = order[weights >= params.min_p * weights[0]]
        return np.sort(order).astype(np.int64)
