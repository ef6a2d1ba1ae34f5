"""How long the draft lane's steps take, as it is measured."""

from __future__ import annotations

_LATELY = 8
"""Steps of a width whose times are averaged, the latest counting most."""


class StepSeconds:
    """How long a step of so many nodes takes, from those of late."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float]] = {}  # nodes -> steps, mean

    def observe(self, nodes: int, seconds: float) -> None:
        """A step has ended."""
        steps, mean = self._known.get(nodes, (0, 0.0))
        steps = min(steps + 1, _LATELY)
        self._known[nodes] = steps, mean + (seconds - mean) / steps

    def left(self, nodes: int, elapsed: float) -> float | None:
        """Seconds until a step ends that has taken so long; None before any has been seen.

        Of one that is late nothing is known but that it may well take as long again.
        """
        if not self._known:
            return None
        nearest = min(self._known, key=lambda known: abs(known - nodes))
        return abs(self._known[nearest][1] - elapsed)
