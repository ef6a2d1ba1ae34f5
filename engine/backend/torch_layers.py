"""Layers of a decoder in torch operators, which the CPU's fp32 path and accelerators share.

The equations of a feature head's fusion stand at `engine.model.config.Fusion`. Features are hidden
states of another model, whose magnitude has no known bound, so every product there treats them as
large.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch.nn.functional import gelu, silu

from engine.model.config import Activation, Experts, Fusion, ModelConfig, RopeConfig


class Projection(Protocol):
    """Stored matrices side by side, with a bias: fp32 rows [n, inner] -> [n, sum of outers]."""

    def __call__(
        self, x: torch.Tensor, *, large: bool = False, exact: bool = False
    ) -> torch.Tensor:
        """The product.

        Args:
            x: fp32 [n, inner].
            large: x may hold numbers beyond fp16's range.
            exact: in fp32 throughout.
        """
        ...


class LayerWeights(Protocol):
    """Brings a model's weights to where a backend computes with them."""

    def vector(self, name: str) -> torch.Tensor:
        """A norm's weights, or sinks, in fp32."""
        ...

    def linear(self, layers: Sequence[str], *, bias: bool) -> Projection:
        """Layers with one input, side by side."""
        ...


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [..., d] over its root mean square, times weight [..., d]."""
    scale = (x * x).mean(dim=-1, keepdim=True).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)


SeenT = TypeVar("SeenT")
CacheT = TypeVar("CacheT")
Turns = Mapping[RopeConfig, tuple[torch.Tensor, torch.Tensor]]
"""cos and sin of every way to rotate, [n, 1, rotated numbers]; the first half of sin is negated."""


class Attention(ABC, Generic[SeenT, CacheT]):
    """One block's attention; backends say how rows look at a cache."""

    def __init__(self, config: ModelConfig, weights: LayerWeights, index: int) -> None:
        prefix = f"model.layers.{index}.self_attn."
        self._block = block = config.blocks[index]
        self._heads, self._kv_heads = block.heads, block.kv_heads
        self._group, self._head_dim = block.heads // block.kv_heads, block.head_dim
        self._scale, self._softcap = block.attention_scale, config.attention_softcap
        self._eps = config.rms_norm_eps
        qkv = [f"{prefix}{part}_proj" for part in block.projections]
        self._qkv = weights.linear(qkv, bias=config.qkv_bias)
        self._out = weights.linear([f"{prefix}o_proj"], bias=config.attention_out_bias)
        self._norm: torch.Tensor | None = None  # [heads + own kv heads, head dim]
        if config.qk_norm:
            counts = dict(zip(block.projections[:2], (self._heads, self._kv_heads), strict=False))
            norms = {part: weights.vector(f"{prefix}{part}_norm.weight") for part in counts}
            self._norm = torch.cat([norms[part].expand(counts[part], -1) for part in counts])
        self._sinks: torch.Tensor | None = None  # [kv heads, 1, group]
        if config.sinks:
            sinks = weights.vector(f"{prefix}sinks")
            self._sinks = sinks.view(self._kv_heads, 1, self._group)

    @abstractmethod
    def run(
        self, x: torch.Tensor, seen: SeenT, cache: CacheT, index: int, *, large: bool = False
    ) -> torch.Tensor:
        """x [n, d] -> [n, d]; the rows' keys and values go to the cache's entry `index`.

        Args:
            x: fp32 [n, d].
            seen: what the rows may look at.
            cache: takes their keys and values.
            index: the block's entry there.
            large: x is not normed.
        """

    def _projected(
        self, x: torch.Tensor, turns: Turns, *, large: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys (both rotated) and values of x: [n, heads or kv heads, head dim].

        Of keys and values there are none where it looks at another block's.
        """
        qkv = self._qkv(x, large=large).view(len(x), -1, self._head_dim)
        turning = self._heads + (self._kv_heads if self._block.stores_kv else 0)
        placed = qkv[:, :turning]
        if self._norm is not None:
            placed = rms_norm(placed, self._norm, self._eps)
        if self._block.rope is not None:
            placed = _rotate(placed, *turns[self._block.rope])
        return placed[:, : self._heads], placed[:, self._heads :], qkv[:, turning:]


def as_kept(
    keys: torch.Tensor, values: torch.Tensor, number: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of keys and values [n, kv heads, head dim] as a cache of that type keeps them.

    A product weights values that a row may not see with zero, and zero times infinity is no number.
    So values beyond the type are kept as zeros, and their keys as no numbers: whoever sees one has
    no number in that head, and all others are as if it were not there.
    """
    keys, values = keys.to(number), values.to(number)
    nothing = (values * 0).sum(dim=-1, keepdim=True)  # zero, or no number
    return keys + nothing, values.nan_to_num(0.0, 0.0, 0.0)


def softmax_parts(
    scores: torch.Tensor, mask: torch.Tensor, softcap: float, sinks: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exponentials of scores [chunks, kv, R, group, CHUNK], in place, and their sums.

    Args:
        scores: products of queries with keys.
        mask: [chunks, 1, R, 1, CHUNK]; 0 where a row may look, -inf elsewhere.
        softcap: scores -> cap * tanh(scores / cap); 0: none.
        sinks: [kv, 1, group], logits that take part and add nothing.

    Returns:
        The exponentials, and the sums [kv, R, group].
    """
    if softcap:
        scores.div_(softcap).tanh_().mul_(softcap)
    scores.masked_fill_(mask < 0, -torch.inf)  # whatever they are: some keys are no numbers
    peak = scores.amax(dim=(0, 4))
    if sinks is not None:
        peak = torch.maximum(peak, sinks)
    shares = scores.sub_(peak[None, ..., None]).exp_()
    total = sum_in_order(shares.sum(dim=4))
    if sinks is not None:
        total = total + (sinks - peak).exp_()
    return shares, total


def sum_in_order(parts: torch.Tensor) -> torch.Tensor:
    """Sum over the first axis strictly in order; more zero parts at the end change nothing."""
    return parts[0] if len(parts) == 1 else parts.cumsum(0)[-1]


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of the first numbers of x [n, heads, head dim], halves convention."""
    dim = cos.shape[2]
    turning, half = x[..., :dim], dim // 2
    swapped = torch.cat((turning[..., half:], turning[..., :half]), dim=2)
    turned = (turning * cos).add_(swapped.mul_(sin))
    return turned if dim == x.shape[2] else torch.cat((turned, x[..., dim:]), dim=2)


_CLAMP = 7.0
_SLOPE = 1.702


class FeedForward(Protocol):
    """The part of a block that treats each row on its own."""

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d], of which at most `rows` are valid -> [n, d]; the others get anything finite."""
        ...


def feed_forward(
    config: ModelConfig,
    weights: LayerWeights,
    index: int,
    mixture: Callable[[Experts, str], FeedForward],
) -> FeedForward:
    """Return the feed-forward of a block.

    Args:
        config: of the model.
        weights: of the model.
        index: the block.
        mixture: makes a choice of experts, given the prefix of its tensors' names.
    """
    prefix = f"model.layers.{index}.mlp"
    experts = config.blocks[index].experts
    if experts is not None:
        return mixture(experts, prefix)
    layers = [f"{prefix}.gate_proj", f"{prefix}.up_proj"]
    gate_up = weights.linear(layers, bias=config.mlp_bias)
    down = weights.linear([f"{prefix}.down_proj"], bias=config.mlp_bias)
    return Dense(config.activation, gate_up, down)


class Dense:
    """down(activation(gate(x)) * up(x))."""

    __slots__ = ("_activation", "_down", "_gate_up")

    def __init__(self, activation: Activation, gate_up: Projection, down: Projection) -> None:
        self._activation, self._gate_up, self._down = activation, gate_up, down

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d] -> [n, d]."""
        del rows  # every product has the tile's shape
        gate_up = self._gate_up(x)
        inner = gate_up.shape[1] // 2
        # Slices keep the rows apart, so that on the CPU a row's vector tail is its own.
        gated = _gated(self._activation, gate_up[:, :inner], gate_up[:, inner:])
        return self._down(gated, large=True)


def choose_experts(logits: torch.Tensor, experts: Experts) -> tuple[torch.Tensor, torch.Tensor]:
    """Experts of each row and their shares, both [n, used], the best first.

    Args:
        logits: the router's, fp32 [n, experts]; of equal ones the lowest expert comes first.
        experts: how many are used, and whether their shares are a softmax over them alone.
    """
    ranked = logits.sort(dim=1, descending=True, stable=True)
    chosen = ranked.indices[:, : experts.used]
    if experts.normalise:
        return chosen, ranked.values[:, : experts.used].softmax(dim=1)
    return chosen, logits.softmax(dim=1).gather(1, chosen)


def _gated(activation: Activation, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if activation == "silu":
        return silu(gate).mul_(up)
    if activation == "gelu_tanh":
        return gelu(gate, approximate="tanh").mul_(up)
    gate.clamp_(max=_CLAMP)
    up.clamp_(-_CLAMP, _CLAMP).add_(1.0)
    shares = torch.empty(len(gate), 2 * gate.shape[1], device=gate.device)[:, : gate.shape[1]]
    torch.mul(gate, _SLOPE, out=shares)
    return torch.sigmoid(shares).mul_(gate).mul_(up)


class Fuser:
    """Weights and arithmetic of a head's fusion.

    Raises:
        ValueError: the head returns normed outputs, as an MTP head does; no plan asks for it.
    """

    def __init__(self, config: ModelConfig, fusion: Fusion, weights: LayerWeights) -> None:
        if fusion.steps.returns_normed:
            raise ValueError("outputs of a head are not normed here")
        self._steps, self._eps, self._fusion = fusion.steps, config.rms_norm_eps, fusion
        self._matrices: dict[str, Projection] = {
            name: weights.linear([name], bias=fusion.bias and name == self._steps.join)
            for name in self._steps.matrices
        }
        self._norms = {name: weights.vector(name) for name in self._steps.norms}

    def begin(
        self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first block's residual input, fp32 [n, d], and what its attention sees.

        Args:
            embedded: the tokens, fp32 [n, d].
            features: the target's, fp32 [n, width], or what the head itself has put out, [n, d].
            own: which of the two.
        """
        steps, hidden = self._steps, embedded.shape[1]
        path = features
        if steps.feature and not (own and not steps.join):
            path = self._matrices[steps.feature](features, large=True)
        beside = self._normed(path, steps.feature_norm)
        token = self._normed(embedded, steps.token_norm)
        if steps.token:
            token = self._matrices[steps.token](token)
        # Slices keep the rows apart, so that on the CPU a row's vector tail is its own.
        both = torch.empty(len(token), hidden + beside.shape[1], device=token.device)
        first, second = both[:, :hidden], both[:, hidden:]
        a, b = (first, second) if steps.gated else (second, first)
        a.copy_(beside)
        b.copy_(token)
        if steps.token:
            silu(b, inplace=True)
        if not steps.join:
            return (beside if self._fusion.residual_normed else path.clone()), both
        x = self._matrices[steps.join](both, large=True)
        if steps.gated:
            x = b.add_(a.sub_(b).mul_(x.sigmoid_()))
        return x, x

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, self._norms[name], self._eps) if name else x


class DecoderBlock(Generic[SeenT, CacheT]):
    """Norms of a block around its attention and feed-forward; the residual stream is fp32.

    Args:
        config: of the model.
        weights: of the model.
        index: the block's number in the model.
        attention: the block's.
        feed_forward: the block's.

    Raises:
        ValueError: the block keeps a state or has a gate behind its attention; no plan asks for it.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: LayerWeights,
        index: int,
        attention: Attention[SeenT, CacheT],
        feed_forward: FeedForward,
    ) -> None:
        if config.blocks[index].gated or config.blocks[index].delta is not None:
            raise ValueError(f"block {index}: states and gates are not computed here")

        def norm(name: str) -> torch.Tensor:
            return weights.vector(f"model.layers.{index}.{name}.weight")

        self._eps = config.rms_norm_eps
        self._before_attention: torch.Tensor | None = None
        if config.fusion is None or index > 0 or config.fusion.steps.first_norm:
            self._before_attention = norm("input_layernorm")
        self._after_attention: torch.Tensor | None = None
        self._after_feed_forward: torch.Tensor | None = None
        if config.output_norms:
            self._after_attention = norm("post_attention_layernorm")
            self._before_feed_forward = norm("pre_feedforward_layernorm")
            self._after_feed_forward = norm("post_feedforward_layernorm")
        else:
            self._before_feed_forward = norm("post_attention_layernorm")
        self._attention, self._feed_forward = attention, feed_forward

    def run(
        self,
        x: torch.Tensor,
        rows: int,
        seen: SeenT,
        cache: CacheT,
        index: int,
        given: torch.Tensor | None = None,
    ) -> None:
        """Advance the hidden states x [n, d] in place.

        Args:
            x: fp32 [n, d].
            rows: at most so many of them are valid.
            seen: what they may look at.
            cache: takes their keys and values.
            index: the block's entry there.
            given: what queries, keys and values are of where that is not x, normed.
        """
        looked = given if given is not None else self._normed(x, self._before_attention)
        added = self._attention.run(looked, seen, cache, index, large=given is not None)
        x.add_(self._normed(added, self._after_attention))
        normed = rms_norm(x, self._before_feed_forward, self._eps)
        added = self._feed_forward.run(normed, rows)
        x.add_(self._normed(added, self._after_feed_forward))

    def _normed(self, added: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return added if weight is None else rms_norm(added, weight, self._eps)
