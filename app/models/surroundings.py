"""State of the window that the hub is told. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Asked anew whenever something is to be known; from any thread.

    Attributes:
        data: the folder of the user's data.
        simulate_gpu: bytes of a simulated accelerator in the place of real ones.
        in_use: loaded models, targets and drafts.
        recent: models that were used before.
        cache: the hub's, where the settings name another one.
        other_login: whether the token of another program may be read.
    """

    data: Path
    simulate_gpu: int | None = None
    in_use: Callable[[], tuple[Path, ...]] = tuple
    recent: Callable[[], tuple[Path, ...]] = tuple
    cache: Callable[[], Path | None] = lambda: None
    other_login: Callable[[], bool] = lambda: False
