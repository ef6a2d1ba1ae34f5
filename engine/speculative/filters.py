"""Top-k, top-p and min-p: which tokens may be drawn.

engine/native/filter.c keeps the same tokens without sorting all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.noise import log

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


def weights(below: Floats) -> NDArray[np.int64]:
    """exp(below) in units of 2^-30: whole numbers, so all orders of summing them agree.

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
    """Ids that the filters keep, ascending; None when all are.

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
