"""Weights of a segment's blocks on a WebGPU device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backend.webgpu.gpu import Buffer
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.stages import Linear
from engine.model.config import BlockConfig, Delta, Experts, ModelConfig


@dataclass(frozen=True, slots=True)
class GpuAttention:
    """Weights of attention; `given`: queries, its own keys and values side by side.

    Attributes:
        head_norms: of a head's queries, then of its own keys.
    """

    given: Linear
    out: Linear
    head_norms: Buffer | None
    sinks: Buffer | None


@dataclass(frozen=True, slots=True)
class GpuDelta:
    """Weights of a gated delta layer; `given`: channels, gates, beta and alpha side by side.

    Attributes:
        layer: of its convolution and its decays; see convolve.wgsl.
        norm: of what a head has seen of its state.
    """

    delta: Delta
    given: Linear
    out: Linear
    layer: Buffer
    norm: Buffer


@dataclass(frozen=True, slots=True)
class GpuFeedForward:
    """Weights of a gated feed-forward, or of all experts one below the other."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class GpuMixture:
    """Weights of a mixture of experts.

    Attributes:
        router: with the gate of the expert that all rows go through as its last output.
        shared: that expert, where there is one.
    """

    config: Experts
    router: Linear
    experts: GpuFeedForward
    shared: GpuFeedForward | None


class GpuBlock:
    """Weights of a block."""

    def __init__(self, config: ModelConfig, loader: GpuLoader, index: int) -> None:
        self._config, self._loader, self._prefix = config, loader, f"model.layers.{index}."
        self.index = index
        own = self.config = config.blocks[index]
        self.mixer = self._attention(own) if own.delta is None else self._delta(own.delta)
        self.feed_forward: GpuFeedForward | GpuMixture
        if own.experts is None:
            self.feed_forward = self._dense("mlp.", bias=config.mlp_bias)
        else:
            self.feed_forward = self._mixture(own.experts)
        self.before_mixer = None
        fusion = config.fusion
        if (
            fusion is None or fusion.steps.first_norm or index > 0
        ):  # else it sees what the fusion gives
            self.before_mixer = self._norm("input_layernorm")
        self.after_mixer = self.after_feed_forward = None
        if config.output_norms:
            self.after_mixer = self._norm("post_attention_layernorm")
            self.before_feed_forward = self._norm("pre_feedforward_layernorm")
            self.after_feed_forward = self._norm("post_feedforward_layernorm")
        else:
            self.before_feed_forward = self._norm("post_attention_layernorm")

    def _norm(self, *names: str) -> Buffer:
        return self._loader.vector(*(f"{self._prefix}{name}.weight" for name in names))

    def _linear(self, layers: Sequence[str], *, bias: bool = False) -> Linear:
        names = [self._prefix + layer for layer in layers]
        biases = self._loader.vector(*(f"{name}.bias" for name in names)) if bias else None
        return Linear(self._loader.side_by_side([f"{name}.weight" for name in names]), biases)

    def _attention(self, own: BlockConfig) -> GpuAttention:
        config, part, names = self._config, "self_attn.", own.projections
        norms = [f"{part}{name}_norm" for name in names[:2]]
        return GpuAttention(
            self._linear([f"{part}{name}_proj" for name in names], bias=config.qkv_bias),
            self._linear([f"{part}o_proj"], bias=config.attention_out_bias),
            self._norm(*norms) if config.qk_norm else None,
            self._loader.vector(f"{self._prefix}{part}sinks") if config.sinks else None,
        )

    def _delta(self, delta: Delta) -> GpuDelta:
        """Load a gated delta layer; what decides about its memory is never quantised here."""
        loader, part = self._loader, f"{self._prefix}linear_attn."
        gates = loader.unquantised([f"{part}in_proj_{name}.weight" for name in "ba"])
        large = loader.side_by_side([f"{part}in_proj_{name}.weight" for name in ("qkv", "z")])
        vectors = (f"{part}{name}" for name in ("conv1d.weight", "rate", "dt_bias"))
        return GpuDelta(
            delta,
            Linear([*large, *gates], None),
            self._linear(["linear_attn.out_proj"]),
            loader.vector(*vectors),
            self._norm("linear_attn.norm"),
        )

    def _dense(self, part: str, *, bias: bool = False) -> GpuFeedForward:
        return GpuFeedForward(
            self._linear([f"{part}gate_proj", f"{part}up_proj"], bias=bias),
            self._linear([f"{part}down_proj"], bias=bias),
        )

    def _mixture(self, experts: Experts) -> GpuMixture:
        loader, part = self._loader, f"{self._prefix}mlp."

        def of_all(*names: str) -> Linear:
            every = [f"{part}experts.{{}}.{name}_proj" for name in names]
            biases = (f"{each.format(i)}.bias" for i in range(experts.count) for each in every)
            matrices = loader.of_experts([f"{each}.weight" for each in every], experts.count)
            return Linear(matrices, loader.vector(*biases) if experts.bias else None)

        routers = [f"{part}router.weight"]
        if experts.shared:
            routers.append(f"{part}shared_expert_gate.weight")
        bias = loader.vector(f"{part}router.bias") if experts.bias else None
        return GpuMixture(
            experts,
            Linear(loader.unquantised(routers), bias),
            GpuFeedForward(of_all("gate", "up"), of_all("down")),
            self._dense("mlp.shared_expert.") if experts.shared else None,
        )
