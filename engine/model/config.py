"""The shape and the constants of a decoder, block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

RopeKind = Literal["none", "linear", "dynamic", "llama3", "yarn", "longrope"]
Activation = Literal["silu", "gelu_tanh", "swiglu_oai"]
"""The activation function of a feed-forward's gate.

swiglu_oai (gpt-oss): gate = min(gate, 7), up = clamp(up, -7, 7), then
(up + 1) * gate * sigmoid(1.702 * gate).
"""


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding and how it is stretched beyond the trained context.

    Fields that a kind does not use keep their defaults.

    Attributes:
        dim: numbers of each head that are rotated, its first ones; halves belong together.
        original_max_positions: the context the model was trained on before stretching.
        short_factors, long_factors: what longrope divides the frequencies by, [dim / 2], for texts
            up to the original context and for longer ones.
        long: which of them holds; see `ModelConfig.for_context`.
    """

    dim: int
    theta: float = 10_000.0
    kind: RopeKind = "none"
    factor: float = 1.0
    original_max_positions: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    long: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """A feed-forward that is a choice of experts, made per token by a router.

    Attributes:
        count: experts there are.
        used: how many of them a token goes through: those with the highest router logits.
        intermediate_size: of each.
        normalise: the weights of the chosen ones sum to 1 (softmax over them alone); otherwise they
            are their shares of the softmax over all.
        bias: router and experts have biases.
        shared: one more expert of this size serves every token, times the sigmoid of a gate.
    """

    count: int
    used: int
    intermediate_size: int
    normalise: bool
    bias: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A gated delta layer (arXiv 2412.06464): a state takes the place of keys and values.

    Each value head has a state [key_dim, value_dim] in float32, of a size that does not grow with
    the text. engine/native/delta.c has the equations.

    Attributes:
        key_heads, value_heads: heads of queries and keys, and a multiple of them of values.
        key_dim, value_dim: numbers of a head.
        width: tokens that the convolution before it sees, the newest included.
        tiled: value head j goes with key head j modulo their count, as llama.cpp's files have it;
            otherwise neighbours share a key head.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    width: int
    tiled: bool = False

    @property
    def channels(self) -> int:
        """Numbers of queries, keys and values together, which go through the convolution."""
        return 2 * self.key_heads * self.key_dim + self.mixed

    @property
    def mixed(self) -> int:
        """Numbers that the heads put out."""
        return self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """The shape of one decoder block.

    Attributes:
        rope: how positions are rotated; None where they are not (SmolLM3's every fourth block).
        heads, kv_heads: heads of queries, and of keys and values, which they share evenly.
        head_dim: numbers of each of them.
        attention_scale: what query-key products are multiplied with.
        inner: numbers within a dense feed-forward.
        window: a row attends to this many last positions of its path, its own included; 0: to all.
        experts: None for a dense feed-forward.
        gated: each head of the queries is followed by a gate: what it attends to is multiplied by
            the gate's sigmoid.
        delta: in place of attention, whose members then mean nothing; None where the block attends.
        shares_kv_with: number of an earlier block, with heads like these, whose keys and values it
            attends to instead of its own (Gemma 3n and 4); None: it has its own.
    """

    rope: RopeConfig | None
    heads: int
    kv_heads: int
    head_dim: int
    attention_scale: float
    inner: int
    window: int = 0
    experts: Experts | None = None
    gated: bool = False
    delta: Delta | None = None
    shares_kv_with: int | None = None

    @property
    def stores_kv(self) -> bool:
        """Tell whether it has keys and values of its own."""
        return self.delta is None and self.shares_kv_with is None

    @property
    def projections(self) -> str:
        """Letters of what attention begins with: queries, and its own keys and values."""
        return "qkv" if self.stores_kv else "q"

    @property
    def sizes(self) -> tuple[object, ...]:
        """All that its bytes depend on."""
        heads = self.heads, self.kv_heads, self.head_dim, self.gated, self.shares_kv_with is None
        return self.delta or heads, self.experts or self.inner


FusionKind = Literal["dgf", "linear", "mtp", "eagle3"]
_FIRST = "model.layers.0."


@dataclass(frozen=True, slots=True)
class FusionSteps:
    """How a kind of feature head joins a feature f with the next token's embedding e.

    One equation for all kinds, of which each leaves steps out; names are those of tensors:

        b = token_norm(e), and where there is a `token` matrix b = silu(token b)
        a = feature f, or f where there is no such matrix; then a' = feature_norm(a)
        gated: y = join [a'; b], z = sigmoid(y), x = z * a' + (1 - z) * b
        otherwise: x = join [b; a'] + bias

    Without a `join` matrix x is a, and the first block's queries, keys and values see [b; a']. The
    head's own outputs then enter as a: they are not as wide as features.

    Attributes:
        gated: the joined numbers decide between the two.
        first_norm: the first block norms what it gets.
        final_norm: a norm follows the last block, for the logits.
        returns_normed: a head's own output, its next feature, is what that norm gives.
    """

    feature: str = ""
    token: str = ""
    join: str = ""
    token_norm: str = ""
    feature_norm: str = ""
    gated: bool = False
    first_norm: bool = False
    final_norm: bool = False
    returns_normed: bool = False

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of the matrices, in the order of the equation."""
        return tuple(name for name in (self.feature, self.token, self.join) if name)

    @property
    def norms(self) -> tuple[str, ...]:
        """Names of the norms."""
        return tuple(name for name in (self.token_norm, self.feature_norm) if name)


_STEPS: dict[FusionKind, FusionSteps] = {
    "dgf": FusionSteps(
        feature="fusion.feature",
        token="fusion.token",
        join="fusion.gate",
        token_norm="fusion.norm.weight",
        gated=True,
    ),
    "linear": FusionSteps(join="fusion.linear"),
    "mtp": FusionSteps(
        join="fusion.linear",
        token_norm="fusion.norm.weight",
        feature_norm="fusion.feature_norm.weight",
        first_norm=True,
        final_norm=True,
        returns_normed=True,
    ),
    "eagle3": FusionSteps(
        feature="fusion.features",
        token_norm=f"{_FIRST}input_layernorm.weight",
        feature_norm=f"{_FIRST}hidden_norm.weight",
        final_norm=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Fusion:
    """The first layer of a feature head: it joins a feature of the target with the next token.

    Position t of a head gets the target's feature of token t and the embedding of token t + 1, and
    tells token t + 2; drafting on, it gets its own output as the feature.

    Attributes:
        kind: "dgf": Dovetail's dynamic gating fusion (arXiv 2412.18934); "linear": EAGLE-1 and 2;
            "mtp": of Qwen3.5 and others, in the model's own files; "eagle3": EAGLE-3.
        target_hidden: numbers of a hidden state of the target.
        taps: target blocks whose outputs are the features, side by side; none: what its final norm
            gives, the input of its output matrix.
        bias: the matrix that joins has one.
        residual_normed: where the first block sees both, it adds to a' rather than a.
        own_embedding, own_head: whether the head has these matrices, or uses the target's.
    """

    kind: FusionKind
    target_hidden: int
    taps: tuple[int, ...] = ()
    bias: bool = False
    residual_normed: bool = False
    own_embedding: bool = False
    own_head: bool = False

    @property
    def steps(self) -> FusionSteps:
        """The steps of its kind."""
        return _STEPS[self.kind]

    @property
    def width(self) -> int:
        """Numbers of a token's features."""
        return self.target_hidden * max(len(self.taps), 1)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape and constants of a decoder-only model.

    Attributes:
        attention_softcap, logit_softcap: x -> cap * tanh(x / cap) on scores and logits; 0: none.
        embedding_scale: what embeddings are multiplied with.
        qk_norm: each head of queries and keys is normed (RMS) before it is rotated.
        output_norms: what attention and feed-forward add is normed too (Gemma).
        sinks: each head has a learned logit that takes part in the softmax and adds nothing.
        blocks: one entry per block.
        fusion: of a feature head, which drafts for a target; None for a model of its own.
        rows: of the output matrix, in a draft that can propose these tokens only; "lm_head.ids"
            names them. None: all tokens.
    """

    family: str
    vocab_size: int
    hidden_size: int
    rms_norm_eps: float
    max_positions: int
    tie_word_embeddings: bool
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    blocks: tuple[BlockConfig, ...]
    qkv_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    activation: Activation = "silu"
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    qk_norm: bool = False
    output_norms: bool = False
    sinks: bool = False
    fusion: Fusion | None = None
    rows: int | None = None

    @property
    def head_rows(self) -> int:
        """Tokens that there are logits for."""
        return self.rows or self.vocab_size

    @property
    def recurrent(self) -> bool:
        """Tell whether some block keeps a state, which cannot go back to where it was."""
        return any(block.delta for block in self.blocks)

    @property
    def uneven(self) -> bool:
        """Tell whether blocks attend with different heads, or to the keys of another block."""
        attending = [block for block in self.blocks if block.delta is None]
        heads = {(block.heads, block.kv_heads, block.head_dim) for block in attending}
        return len(heads) > 1 or not all(block.stores_kv for block in attending)

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def typical(self) -> BlockConfig:
        """The first block that attends, for callers that know only models with like blocks."""
        return next(block for block in self.blocks if block.delta is None)

    @property
    def rope(self) -> RopeConfig:
        """The rotation of the first block, for callers that know only models with like blocks."""
        rope = self.blocks[0].rope
        if rope is None:
            raise ValueError("the first block rotates nothing")
        return rope

    def for_context(self, context: int) -> ModelConfig:
        """The model as it is run with a planned context of so many tokens.

        Longrope has other frequencies for long contexts. They are chosen once: keys in the cache
        would be wrong after a change.
        """
        return replace(self, blocks=tuple(_for_context(block, context) for block in self.blocks))


def _for_context(block: BlockConfig, context: int) -> BlockConfig:
    rope = block.rope
    if rope is None or rope.kind != "longrope":
        return block
    return replace(block, rope=replace(rope, long=context > rope.original_max_positions))
