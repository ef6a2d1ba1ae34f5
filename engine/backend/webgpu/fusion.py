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
        self._matrices = [
            Linear(
                loader.side_by_side([f"{name}.weight"]),
                loader.vector(f"{name}.bias") if fusion.biased else None,
            )
            for name in fusion.matrices
        ]
        self._norms = [loader.vector(name) for name in fusion.norms]

    @property
    def feeds_attention(self) -> bool:
        """Tell whether its last step brings to the first block's attention what that sees."""
        return self._fusion.kind == "eagle3"

    @property
    def returns_normed(self) -> bool:
        """Tell whether the head's own output is what its final norm gives."""
        return self._fusion.returns_normed

    def own_place(self, room: GpuRoom) -> Buffer:
        """Return where the head's own outputs go in place of features, [rows, d]."""
        if self._fusion.kind != "eagle3":
            return room["features"]
        return room["gate"] if self._fusion.residual_normed else room["hidden"]

    def steps(self, room: GpuRoom, *, own: bool) -> Iterator[Dispatch]:
        """Turn what lies in `embedded` and `features` into hidden states.

        `own`: the head's own outputs lie in `own_place` instead of features.
        """
        if self._fusion.kind == "dgf":
            yield from self._gated(room)
        elif self._fusion.kind == "linear":
            if self._fusion.normed:
                yield from self._both_normed(room, room["features"], room["second"])
            else:
                embedded = GpuRows(room["embedded"], self._hidden)
                features = GpuRows(room["features"], self._fusion.width)
                yield self._stages.gathered(room, embedded, features)
            yield from self._stages.products(room, self._matrices[0], room["hidden"])
        else:
            yield from self._beside(room, own=own)

    def _gated(self, room: GpuRoom) -> Iterator[Dispatch]:
        """z * a + (1 - z) * b."""
        stages, hidden, width = self._stages, self._hidden, self._fusion.width
        feature, token, gate = self._matrices
        yield stages.gathered(room, GpuRows(room["features"], width))
        yield from stages.products(room, feature, room["first"])
        yield stages.normed(room, room["embedded"], self._norms[0])
        yield from stages.products(room, token, room["second"])
        first, second = GpuRows(room["first"], hidden), GpuRows(room["second"], hidden)
        yield stages.gathered(room, first, second, silu=True)
        yield from stages.products(room, gate, room["gate"])
        kernel = stages.gpu.kernel("blend")
        bound = stages.uniform(hidden), room["first"], room["second"], room["gate"]
        group = kernel.group(*bound, room["hidden"])
        yield Dispatch(kernel, group, lambda extent: (-(-hidden // 64), extent.rows, 1))

    def _beside(self, room: GpuRoom, *, own: bool) -> Iterator[Dispatch]:
        stages, width = self._stages, self._fusion.width
        x = self.own_place(room)
        if not own:
            yield stages.gathered(room, GpuRows(room["features"], width))
            yield from stages.products(room, self._matrices[0], x)
        normed = room["hidden"] if self._fusion.residual_normed else room["second"]
        yield from self._both_normed(room, x, normed)

    def _both_normed(self, room: GpuRoom, features: Buffer, normed: Buffer) -> Iterator[Dispatch]:
        """Bring embedded tokens and features [rows, d], each normed, to the next product.

        `normed`: where the features go in between, [rows, d to whole eights].
        """
        stages, hidden, (of_token, of_feature) = self._stages, self._hidden, self._norms
        yield stages.normed(room, room["embedded"], of_token, result=room["first"])
        yield stages.normed(room, features, of_feature, result=normed)
        parts = (GpuRows(each, hidden, up(hidden, 8)) for each in (room["first"], normed))
        yield stages.gathered(room, *parts)
