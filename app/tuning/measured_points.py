"""Measured speeds as points beside a curve. No Qt."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine_link.measured import Measured, age_words
from app.tuning.budget.model import MeasuredPoint
from engine.commands import Mode
from engine.events import Previewed


def points_for(
    told: Previewed, draft: str | None, measured: Sequence[Measured], now: float
) -> list[MeasuredPoint]:
    """Return the points that a preview's curves predict: the same draft, the same kind of GPU.

    Args:
        told: the preview.
        draft: the draft of its plan.
        measured: all of the model.
        now: the Unix time.
    """
    simulated = any(found.simulated for found in told.machine.usable)
    return [
        MeasuredPoint(
            point.vram,
            point.tokens_per_s,
            point.mode if point.drafting else Mode.PLAIN,
            age_words(now - point.at),
        )
        for point in measured
        if (not point.drafting or point.draft == draft)
        and (not point.vram or point.simulated == simulated)
    ]
