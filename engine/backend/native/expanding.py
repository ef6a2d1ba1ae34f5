"""The native call that computes tree nodes and ranks what may follow them."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from engine.backend.native.library import (
    CANCELLED,
    SamplingStruct,
    library,
    pointer,
    refusal,
)
from engine.backend.native.sampling import MOST_WIDTH
from engine.backend.native.sizes import ROWS
from engine.backend.round import Candidates, Ranking
from engine.backend.step import Step


class ExpandCall:
    """dt_expand for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
    """

    def __init__(self, pool: int, segment: Any) -> None:  # noqa: ANN401 (ctypes has no name for it)
        self._before = pool, segment
        self._sampling = SamplingStruct()
        self._sampling_at = c.byref(self._sampling)
        self._ranking: Ranking | None = None
        self._reserve(ROWS * 4)

    def __call__(
        self, cache: int, arguments: tuple[Any, ...], step: Step, ranking: Ranking, width: int
    ) -> list[Candidates] | None:
        """See `engine.backend.segment.Segment.expand`.

        Args:
            cache: a handle.
            arguments: what `StepArrays` has prepared of the step.
            step: it.
            ranking: how candidates rank.
            width: most candidates of a row.
        """
        if not 0 < width <= MOST_WIDTH:
            raise ValueError(f"{width} candidates per node")
        wanted = step.logit_rows if step.logit_rows is not None else range(len(step.tokens))
        count = len(wanted) * width
        if count > len(self._tokens):
            self._reserve(2 * count)
        if ranking is not self._ranking:
            self._ranking, sampling = ranking, self._sampling
            sampling.temperature, sampling.seed = ranking.temperature, ranking.seed
            sampling.share_noise = ranking.share_noise
        result = library().dt_expand(
            *self._before, cache, *arguments, self._sampling_at, width, self._found_at
        )
        if result == CANCELLED:
            return None
        if result:
            raise refusal(result)
        tokens, weights = self._tokens[:count].tolist(), self._weights[:count].tolist()
        pairs: Candidates = list(zip(tokens, weights, strict=True))
        rows = [pairs[first : first + width] for first in range(0, count, width)]
        if -1 in tokens:  # rows with fewer numbers than that
            rows = [[pair for pair in row if pair[0] >= 0] for row in rows]
        return rows

    def _reserve(self, count: int) -> None:
        found = np.zeros((count, 2), dtype=np.int32)
        self._found_at = pointer(found)
        self._tokens, self._weights = found[:, 0], found.view(np.float32)[:, 1]
