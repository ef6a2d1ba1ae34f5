"""What a Calibrate does: measure this machine and keep the result."""

from __future__ import annotations

from collections.abc import Callable

from engine.plan.speeds import Speeds


def measure_machine(
    progress: Callable[[str, float], None], cancelled: Callable[[], bool]
) -> Speeds:
    """Measure and keep.

    Raises:
        Cancelled: the user wants something else.
    """
    raise NotImplementedError
