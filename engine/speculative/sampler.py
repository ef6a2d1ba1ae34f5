"""Sampler: logits -> token, a pure function of (logits, tokens so far, position)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.cpu import native_is_built
from engine.backend.ledger import Account
from engine.backend.native.pool import shared_pool
from engine.backend.native.sampling import NativeDraws
from engine.backend.noise import log, noise
from engine.backend.round import Ranking
from engine.errors import InvalidLogits
from engine.model.weights.readable import Floats
from engine.request import Bias, SamplingParams
from engine.speculative.constraint import Constraint, mask

_NOISE_SPAN = 27.0
"""More than the noise of any two tokens can differ."""

_LOG2_E = np.float32(1.44269504)
_POWERS = tuple(  # of (ln 2)^k / k!, the highest first: 2^f for |f| <= 1/2
    np.float32(c)
    for c in (
        1.54035304e-4,
        1.33335581e-3,
        9.61812911e-3,
        5.55041087e-2,
        2.40226507e-1,
        6.93147181e-1,
        1.0,
    )
)


class Sampler:
    """Draws the target's next token; `ranking` lets drafts rank theirs with the same noise.

    The draw is argmax(log p / T + Gumbel noise) over the tokens that the filters keep; ties go to
    the lowest id. Because the noise belongs to (seed, position, id), the draw depends on the
    target's logits alone (drafter-invariant speculative decoding, arXiv 2408.07978).

    The native library draws where it is built (engine/native/sample.c); the numpy code below is
    the definition, and serves elsewhere. Both give the same tokens, bit for bit.

    Args:
        params: the sampling parameters.
        answer_start: position where the answer begins; presence and frequency penalties count
            the tokens from there on.
        share_noise: whether drafts rank with the target's noise; off only to measure the gain.
        native: whether the native library draws; None: where it is built.
        account: where the memory of that is entered.
        constraint: which tokens may be drawn; it comes before all other filters. None: all.
        threads: of the native draws; None: one for each core.
        bias: what is added to the logits of some tokens, each named once; the grammar comes before
            it, penalties and filters after it.
    """

    def __init__(
        self,
        params: SamplingParams,
        answer_start: int = 0,
        *,
        share_noise: bool = True,
        native: bool | None = None,
        account: Account | None = None,
        constraint: Constraint | None = None,
        threads: int | None = None,
        bias: Bias = (),
    ) -> None:
        self.params = params
        self._bias = bias
        self.constraint = constraint
        self._answer_start = answer_start
        self._share_noise, self._account, self._threads = share_noise, account, threads
        self.ranking = Ranking(params.temperature, params.seed, share_noise)
        self._wants_native = native_is_built() if native is None else native
        self._native: NativeDraws | None = None

    def native(self, vocab: int) -> NativeDraws | None:
        """Return the native draws over a vocabulary of that size; None where numpy draws.

        A list of tokens given to them may grow from call to call, and changes in no other way.
        """
        if self._wants_native and (self._native is None or self._native.vocab != vocab):
            self._native = NativeDraws(
                self.params,
                vocab,
                self._answer_start,
                share_noise=self._share_noise,
                pool=shared_pool(self._threads),
                account=self._account,
                allowed=self.constraint.allowed if self.constraint is not None else None,
                bias=self._bias,
            )
        return self._native

    def draw(self, logits: Floats, tokens: Sequence[int], path: Sequence[int] = ()) -> int:
        """Draw the token that follows tokens + path.

        Args:
            logits: fp32 [vocab], the target's at that place.
            tokens: committed tokens, prompt included.
            path: tokens of the tree between them and the place.

        Raises:
            InvalidLogits: the logits are not finite.
            UserFixable: the grammar is too much work.
        """
        if (native := self.native(len(logits))) is not None:
            return native.draw(logits, [*tokens, *path] if path else tokens)
        if self.constraint is not None:
            allowed = mask(self.constraint.allowed(tokens, path), len(logits))
            logits = np.where(allowed, logits, np.float32(-np.inf))
        if known := {token: value for token, value in self._bias if 0 <= token < len(logits)}:
            logits = logits.copy()
            logits[list(known)] += np.array(list(known.values()), dtype=np.float32)
        row = self._penalise(logits, tokens, path) if self.params.penalised else logits
        best = int(row.argmax())
        if not np.isfinite(row[best]):
            raise InvalidLogits("the model's output is not a number")
        if self.params.greedy:
            return best
        relative = row.astype(np.float64) - np.float64(row[best])
        ids = kept(row, self.params)
        if ids is None:
            ids = np.flatnonzero(relative >= -_NOISE_SPAN * self.params.temperature)
        with np.errstate(over="ignore"):  # at a temperature close to 0
            scores = relative[ids] / self.params.temperature
        own = noise(self.params.seed, len(tokens) + len(path), len(row), ids)
        return int(ids[(scores + own).argmax()])

    def _penalise(self, logits: Floats, tokens: Sequence[int], path: Sequence[int]) -> Floats:
        """Return the logits after the penalties, computed in fp64 and rounded to fp32."""
        params = self.params
        history = np.array([*tokens, *path], dtype=np.int64)
        scores = logits.astype(np.float64)
        seen = np.unique(history)
        factor = params.repetition_penalty
        with np.errstate(over="ignore"):  # of absurd penalties
            known = scores[seen]
            scores[seen] = np.where(known > 0, known / factor, known * factor)
            ids, counts = np.unique(history[self._answer_start :], return_counts=True)
            scores[ids] -= params.presence_penalty + params.frequency_penalty * counts
            return scores.astype(np.float32)


def weights(below: Floats) -> NDArray[np.int64]:
    """Return exp(below) in units of 2^-30: integers, so that any order of summing agrees.

    Args:
        below: fp32, logits less the best one.
    """
    exponent = np.maximum(below * _LOG2_E, np.float32(-126))
    whole = np.rint(exponent)
    f = exponent - whole
    power = np.full_like(f, _POWERS[0])
    for coefficient in _POWERS[1:]:
        power = power * f + coefficient
    scale = ((whole.astype(np.int32) + np.int32(127 + 30)) << 23).view(np.float32)
    return np.asarray(np.rint(power * scale), dtype=np.int64)


def kept(row: Floats, params: SamplingParams) -> NDArray[np.int64] | None:
    """Return the ids that the filters keep, ascending; None when all are.

    All three keep a beginning of the order (higher logit first, then lower id).

    Args:
        row: fp32 [vocab], logits after the penalties, the best one finite.
        params: top_k, top_p, min_p.
    """
    top_k = params.top_k if 0 < params.top_k < len(row) else 0
    if not top_k and params.top_p == 1 and params.min_p == 0:
        return None
    order = np.argsort(-row, kind="stable")
    best = row[order[0]]
    if top_k:
        order = order[:top_k]
    if params.top_p < 1:
        with np.errstate(over="ignore"):  # far below the best is -infinity
            reached = np.cumsum(weights(row[order] - best)).astype(np.float64)
        order = order[: int(np.searchsorted(reached, params.top_p * reached[-1])) + 1]
    if params.min_p > 0:
        least = log(np.array([params.min_p]))[0]
        order = order[row[order].astype(np.float64) - np.float64(best) >= least]
    return np.sort(order).astype(np.int64)
