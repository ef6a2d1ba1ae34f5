"""What every ceiling of graphics memory would give: the steps between which nothing changes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from engine.commands import Mode
from engine.machine.memory import DeviceMemory


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Best plan under a ceiling, from `vram` bytes on until the next point.

    Attributes:
        mode: the resulting mode, as in `engine.plan.plan.Plan`, like the fields after it.
        memory: memory by device, the CPU first.
    """

    vram: int
    layers_on_gpu: int
    mode: Mode
    draft_device: str | None
    tokens_per_s: float
    plain_tokens_per_s: float
    memory: tuple[DeviceMemory, ...]
    embedding_on_gpu: bool = False
    head_on_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """All ceilings for one wished mode.

    Attributes:
        mode: the wish.
        points: by `vram`, each faster than the one before or else nearer to the wish; empty where
            nothing fits.
        limit: the most bytes that the accelerator may hold now; 0 without one.
        knee: the smallest ceiling with about the best speed.
        layers: blocks of the target.
        context: planned tokens.
        refusal: why there are no points, in words.
    """

    mode: Mode
    points: tuple[CurvePoint, ...]
    limit: int
    knee: int
    layers: int
    context: int
    refusal: str = ""

    @property
    def at_best(self) -> CurvePoint:
        """Return the point of the knee, of a curve that has points."""
        return self.at() or self.points[-1]

    def at(self, vram: int | None = None) -> CurvePoint | None:
        """Return the point of a ceiling, by default the knee's; None where nothing fits."""
        ceiling = self.knee if vram is None else vram
        place = bisect_right(self.points, ceiling, key=lambda point: point.vram)
        return self.points[place - 1] if place else None
