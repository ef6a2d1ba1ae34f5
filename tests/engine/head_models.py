"""Small feature heads of every kind with random weights, and what they compute, in plain numpy.

The reference is written from the papers, not from our kernels: one pair after the other, no cache
but lists, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from full_models import RandomWeights
from numpy.typing import NDArray

from engine.model.config import BlockConfig, Fusion, FusionKind, ModelConfig, RopeConfig
from engine.model.tensors import HEAD_IDS, borrowed_tensors, expected_tensors
from engine.model.weights.readable import Floats, Weights

ROOT = -1
"""Parent of a pair that nothing comes before."""


def small_target(layers: int = 3) -> ModelConfig:
    """What heads draft for unless told: sizes that divide by nothing, an output matrix."""
    block = BlockConfig(
        RopeConfig(dim=12), heads=6, kv_heads=2, head_dim=12, attention_scale=12**-0.5, inner=90
    )
    return ModelConfig(
        family="llama",
        vocab_size=323,
        hidden_size=72,
        rms_norm_eps=1e-6,
        max_positions=640,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_ids=(2,),
        blocks=(block,) * layers,
    )


def head_config(
    kind: FusionKind,
    blocks: int = 1,
    *,
    rows: int | None = None,
    bias: bool = False,
    residual_normed: bool = False,
    target: ModelConfig | None = None,
) -> ModelConfig:
    """A head of a kind, which drafts for `target`.

    Args:
        blocks: its depth m.
        rows: tokens it can propose; then the output matrix is its own. "eagle3" has always one.
    """
    target = target or small_target()
    own_head = kind == "eagle3" or rows is not None
    layers = target.num_layers
    fusion = Fusion(
        kind,
        target.hidden_size,
        taps=(0, layers // 2, layers - 1) if kind == "eagle3" else (),
        bias=bias,
        residual_normed=residual_normed,
        own_head=own_head,
    )
    return replace(
        target,
        blocks=(replace(target.typical, window=0),) * blocks,
        tie_word_embeddings=target.tie_word_embeddings and not own_head,
        fusion=fusion,
        rows=rows,
    )


HEADS: dict[str, ModelConfig] = {
    "dgf 1": head_config("dgf"),
    "dgf 2": head_config("dgf", 2),
    "dgf 3": head_config("dgf", 3),
    "dgf reduced": head_config("dgf", rows=100),
    "linear": head_config("linear"),
    "linear with bias": head_config("linear", bias=True),
    "eagle3": head_config("eagle3"),
    "eagle3 reduced": head_config("eagle3", rows=150),
    "eagle3 normed": head_config("eagle3", rows=150, residual_normed=True),
    "eagle3 of two blocks": head_config("eagle3", 2, rows=150),
}
"""One of every kind."""

_LINEAR = HEADS["linear"]
assert _LINEAR.fusion is not None
MTP = replace(
    _LINEAR,
    blocks=(replace(_LINEAR.typical, rope=RopeConfig(dim=4), gated=True),),
    qk_norm=True,
    fusion=Fusion("mtp", _LINEAR.hidden_size),
)
"""A head as models bring it along, which PyTorch's path does not run."""


@dataclass(frozen=True, slots=True)
class HeadWeights(RandomWeights):
    """Random weights of a head; what it borrows is the target's where that is given."""

    target: Weights | None = None

    def float32(self, name: str) -> Floats:
        """The tensor."""
        if self.target is not None and name in borrowed_tensors(self.config):
            return self.target.float32(name)
        return RandomWeights.float32(self, name)


def random_features(config: ModelConfig, count: int, seed: int = 0) -> Floats:
    """Target features of so many tokens, [count, width]."""
    if config.fusion is None:
        raise ValueError("this is no head")
    rng = np.random.default_rng([seed, count])
    return rng.standard_normal((count, config.fusion.width), dtype=np.float32)


Vector = NDArray[np.float64]


class HeadReference:
    """What a head computes: pairs of (token, feature) that form a tree.

    Attributes:
        hidden: output of every pair, [hidden]: its feature where a child drafts on.
        logits: of every pair, [head rows].
        parents: the pair before each, or ROOT.
    """

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        if config.fusion is None:
            raise ValueError("this is no head")
        names = expected_tensors(config)
        self._config, self._fusion = config, config.fusion
        self._w = {name: weights.float32(name).astype(np.float64) for name in names}
        self._head = self._w.get("lm_head.weight", self._w["model.embed_tokens.weight"])
        self._keys: list[list[Vector]] = []  # [pair][block] -> [kv heads, dim]
        self._values: list[list[Vector]] = []
        self.hidden: list[Vector] = []
        self.logits: list[Vector] = []
        self.parents: list[int] = []

    @property
    def ids(self) -> list[int]:
        """The token of every row of the logits."""
        every = np.arange(self._config.head_rows)
        return [int(token) for token in self._w.get(HEAD_IDS, every)]

    def path(self, pair: int) -> list[int]:
        """The pairs before and this one, from the first."""
        found = []
        while pair != ROOT:
            found.append(pair)
            pair = self.parents[pair]
        return found[::-1]

    def extend(self, tokens: Sequence[int], features: Floats, parent: int = ROOT) -> int:
        """A chain of pairs with the target's features; returns the last."""
        for token, feature in zip(tokens, features, strict=True):
            parent = self.add(token, parent, feature)
        return parent

    def add(self, token: int, parent: int, feature: Floats | None = None) -> int:
        """One pair behind another; without a feature it takes its parent's output for one."""
        number = len(self.parents)
        self.parents.append(parent)
        path = self.path(number)
        self._keys.append([])
        self._values.append([])
        embedded = self._w["model.embed_tokens.weight"][token] * self._config.embedding_scale
        own = feature is None
        given = self.hidden[parent] if feature is None else feature.astype(np.float64)
        x, first = self._fuse(embedded, given, own=own)
        for block in range(self._config.num_layers):
            prefix = f"model.layers.{block}."
            if block == 0 and first is not None:
                seen = first
            elif block == 0:
                seen = x
            else:
                seen = self._norm(x, f"{prefix}input_layernorm.weight")
            x = x + self._attend(seen, prefix, block, path)
            normed = self._norm(x, f"{prefix}post_attention_layernorm.weight")
            gate = self._w[f"{prefix}mlp.gate_proj.weight"] @ normed
            up = self._w[f"{prefix}mlp.up_proj.weight"] @ normed
            x = x + self._w[f"{prefix}mlp.down_proj.weight"] @ (_silu(gate) * up)
        last = self._norm(x, "model.norm.weight") if self._fusion.kind == "eagle3" else x
        self.hidden.append(x)
        self.logits.append(self._head @ last)
        return number

    def _fuse(self, e: Vector, f: Vector, *, own: bool) -> tuple[Vector, Vector | None]:
        """What block 0 adds to, and what its attention sees where that is something else."""
        w = self._w
        if self._fusion.kind == "dgf":
            a = w["fusion.feature.weight"] @ f
            b = _silu(w["fusion.token.weight"] @ self._norm(e, "fusion.norm.weight"))
            z = _sigmoid(w["fusion.gate.weight"] @ np.concatenate((a, b)))
            return z * a + (1 - z) * b, None
        if self._fusion.kind == "linear":
            x = w["fusion.linear.weight"] @ np.concatenate((e, f))
            return x + w["fusion.linear.bias"] if self._fusion.bias else x, None
        x = f if own else w["fusion.features.weight"] @ f
        normed = self._norm(x, "model.layers.0.hidden_norm.weight")
        seen = np.concatenate((self._norm(e, "model.layers.0.input_layernorm.weight"), normed))
        return normed if self._fusion.residual_normed else x, seen

    def _attend(self, seen: Vector, prefix: str, block: int, path: list[int]) -> Vector:
        own, position = self._config.typical, len(path) - 1
        projected = [self._w[f"{prefix}self_attn.{part}_proj.weight"] @ seen for part in "qkv"]
        query, key, value = (part.reshape(-1, own.head_dim) for part in projected)
        theta = self._config.rope.theta
        query, key = _rotated(query, position, theta), _rotated(key, position, theta)
        self._keys[path[-1]].append(key)
        self._values[path[-1]].append(value)
        keys = np.stack([self._keys[pair][block] for pair in path])  # [position, kv heads, dim]
        values = np.stack([self._values[pair][block] for pair in path])
        group = own.heads // own.kv_heads
        mixed = []
        for head in range(own.heads):
            scores = keys[:, head // group] @ query[head] * own.attention_scale
            shares = np.exp(scores - scores.max())
            mixed.append(shares @ values[:, head // group] / shares.sum())
        return self._w[f"{prefix}self_attn.o_proj.weight"] @ np.concatenate(mixed)

    def _norm(self, x: Vector, name: str) -> Vector:
        return x / np.sqrt(np.mean(x * x) + self._config.rms_norm_eps) * self._w[name]


def _rotated(heads: Vector, position: int, theta: float) -> Vector:
    """Numbers i and i + dim / 2 of every head [heads, dim] turned by position * theta^(-2i/dim)."""
    half = heads.shape[1] // 2
    angle = position * theta ** (-np.arange(half) / half)
    a, b = heads[:, :half], heads[:, half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=1)


def _sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def _silu(x: Vector) -> Vector:
    return x * _sigmoid(x)
