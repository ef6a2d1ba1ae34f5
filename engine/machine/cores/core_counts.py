"""What counting a processor's cores gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CoreCounts:
    """Cores that a process may use.

    Attributes:
        physical: cores.
        threads: hardware threads; more than `physical` with hyper-threads.
        fast: performance cores among `physical`, where there are two kinds.
        guessed: the system does not say which threads share a core; each was counted as one.
    """

    physical: int
    threads: int
    fast: int | None = None
    guessed: bool = False

    def within(self, quota: float | None) -> CoreCounts:
        """Limit counts to so many processors' worth of time; a part of one is worth a thread.

        With a quota of 1.5 two threads get 1.5 cores' time, one thread would get 1.
        """
        if quota is None:
            return self
        most = max(math.ceil(quota), 1)
        return replace(
            self,
            physical=min(self.physical, most),
            threads=min(self.threads, most),
            fast=None if self.fast is None else min(self.fast, most),
        )


FAST = 0.8
"""A core is fast if it has so much of the best one's rank. Equal cores differ by a few percent."""


def count_of(cores: list[tuple[int, float]]) -> CoreCounts:
    """Count cores from each one's number of threads and rank (any unit, larger is faster)."""
    best = max((rank for _, rank in cores), default=0.0)
    fast = sum(rank >= FAST * best for _, rank in cores)
    return CoreCounts(
        physical=max(len(cores), 1),
        threads=max(sum(threads for threads, _ in cores), 1),
        fast=fast if fast < len(cores) else None,
    )
