"""The first layer of a feature head on a WebGPU device; see `engine.model.config.Fusion`."""

from __future__ import annotations

from collections.abc import Iterator

from engine.backend.webgpu.gpu import Buffer
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.room import GpuRoom
from engine.backend.webgpu.sizes import up
from engine.backend.webgpu.stages import Dispatch, GpuRows, Linear, Stages
from engine.model.config import Fusion, ModelConfig


class GpuFuser:
    """Weights of a head's fusion, and its steps from embedded tokens to hidden states."""

    def __init__(
        self, config: ModelConfig, fusion: Fusion, loader: GpuLoader, stages: Stages
    ) -> None:
        self._fusion, self._stages, self._hidden = fusion, stages, config.hidden_size
        self._steps = steps = fusion.steps
        self._matrices = {
            name: Linear(
                loader.side_by_side([f"{name}.weight"]),
                loader.vector(f"{name}.bias") if fusion.bias and name == steps.join else None,
            )
            for name in steps.matrices
        }
        self._norms = {name: loader.vector(name) for name in steps.norms}

    @property
    def feeds_attention(self) -> bool:
        """Tell whether its last step brings to the first block's attention what that sees."""
        return not self._steps.join

    @property
    def returns_normed(self) -> bool:
        """Tell whether the head's own output is what its final norm gives."""
        return self._steps.returns_normed

    def own_place(self, room: GpuRoom) -> Buffer:
        """Return where the head's own outputs go in place of features, [rows, d]."""
        if self._steps.join:
            return room["features"]
        return room["gate"] if self._fusion.residual_normed else room["hidden"]

    def steps(self, room: GpuRoom, *, own: bool) -> Iterator[Dispatch]:
        """Turn what lies in `embedded` and `features` into hidden states.

        `own`: the head's own outputs lie in `own_place` instead of features.
        """
        stages, steps, gated = self._stages, self._steps, self._steps.gated
        path = room["first"] if gated else self.own_place(room)
        if steps.feature and (steps.join or not own):
            yield stages.gathered(room, GpuRows(room["features"], self._fusion.width))
            yield from stages.products(room, self._matrices[steps.feature], path)
        if steps.token:
            yield stages.normed(room, room["embedded"], self._norms[steps.token_norm])
            yield from stages.products(room, self._matrices[steps.token], room["second"])
            both = GpuRows(path, self._hidden), GpuRows(room["second"], self._hidden)
            yield stages.gathered(room, *both, silu=True)
        else:
            yield from self._side_by_side(room, path)
        if steps.join:
            place = room["gate" if gated else "hidden"]
            yield from stages.products(room, self._matrices[steps.join], place)
        if gated:
            yield self._blended(room)

    def _side_by_side(self, room: GpuRoom, path: Buffer) -> Iterator[Dispatch]:
        """Bring embedded tokens and features [rows, d], normed or not, to the next product."""
        steps, hidden = self._steps, self._hidden
        between = room["hidden" if self._fusion.residual_normed else "second"]
        places = (
            (room["embedded"], steps.token_norm, room["first"]),
            (path, steps.feature_norm, between),
        )
        parts = []
        for given, norm, place in places:
            if norm:
                yield self._stages.normed(room, given, self._norms[norm], result=place)
            parts.append(GpuRows(place, hidden, up(hidden, 8)) if norm else GpuRows(given, hidden))
        yield self._stages.gathered(room, *parts)

    def _blended(self, room: GpuRoom) -> Dispatch:
        """z * a + (1 - z) * b."""
        stages, hidden = self._stages, self._hidden
        kernel = stages.gpu.kernel("blend")
        bound = stages.uniform(hidden), room["first"], room["second"], room["gate"]
        group = kernel.group(*bound, room["hidden"])
        return Dispatch(kernel, group, lambda extent: (-(-hidden // 64), extent.rows, 1))
