"""The tensors of a model by their canonical names, which backends ask for whatever a file has.

The names are those of Hugging Face's Llama; those of a feature head's first layer begin with
"fusion.". Norm weights are the factors themselves, also where a family stores them less one.
"""

from __future__ import annotations

from engine.model.config import BlockConfig, Delta, Fusion, ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"

HEAD_IDS = "lm_head.ids"
"""The token of each row of the output matrix, in a draft with a reduced vocabulary.

Whole numbers, ascending; as all tensors it is read as fp32, which holds them exactly.
"""

Shape = tuple[int, ...]

UNQUANTISED = (
    *("router.weight", "shared_expert_gate.weight"),
    *("in_proj_a.weight", "in_proj_b.weight", "conv1d.weight"),
)
"""Ends of the names of matrices that are never quantised here: small ones that much hangs on."""


def expected_tensors(config: ModelConfig) -> dict[str, Shape]:
    """Return the shapes of a model's tensors, by name.

    `lm_head.weight` is among them only when it is not tied, `lm_head.ids` only where not all tokens
    have a row.
    """
    tensors: dict[str, Shape] = {EMBEDDING: (config.vocab_size, config.hidden_size)}
    for index, block in enumerate(config.blocks):
        prefix = f"model.layers.{index}."
        mixer = _attention(config, block) if block.delta is None else _delta(config, block.delta)
        for name, shape in (mixer | _feed_forward(config, block)).items():
            tensors[prefix + name] = shape
    tensors[FINAL_NORM] = (config.hidden_size,)
    if not config.tie_word_embeddings:
        tensors[HEAD] = (config.head_rows, config.hidden_size)
    if config.rows is not None:
        tensors[HEAD_IDS] = (config.rows,)
    return tensors if config.fusion is None else _of_head(config, config.fusion, tensors)


def _of_head(config: ModelConfig, fusion: Fusion, tensors: dict[str, Shape]) -> dict[str, Shape]:
    """Add and remove what a feature head has more, and less, than a model of its shape."""
    hidden, width, steps = config.hidden_size, fusion.width, fusion.steps
    path = hidden if steps.feature else width  # what the features have become
    if not steps.final_norm:
        del tensors[FINAL_NORM]
    if not steps.first_norm:
        tensors.pop("model.layers.0.input_layernorm.weight", None)
    columns = {steps.feature: width, steps.token: hidden, steps.join: hidden + path}
    for name in steps.matrices:
        tensors |= _linear(name, hidden, columns[name], fusion.bias and name == steps.join)
    for name in steps.norms:
        tensors[name] = (path if name == steps.feature_norm else hidden,)
    for name in (f"model.layers.0.self_attn.{letter}_proj.weight" for letter in "qkv"):
        if name in tensors and not steps.join:
            tensors[name] = (tensors[name][0], 2 * hidden)
    return tensors


def borrowed_tensors(config: ModelConfig) -> tuple[str, ...]:
    """Return the names of the tensors that a feature head takes from its target."""
    fusion = config.fusion
    if fusion is None:
        return ()
    own = {EMBEDDING: fusion.own_embedding, HEAD: fusion.own_head}
    return tuple(name for name, there in own.items() if not there)


def segment_tensors(
    config: ModelConfig, blocks: range, *, embed: bool, head: bool
) -> dict[str, Shape]:
    """Return the tensors that some blocks need, and those of embedding and output where wanted.

    A tied matrix is listed once.

    Args:
        config: of the model.
        blocks: numbers of the blocks.
        embed: with what turns tokens into hidden states.
        head: with what turns hidden states into logits.
    """
    ends: set[str] = set()
    if head:
        ends |= {FINAL_NORM, EMBEDDING if config.tie_word_embeddings else HEAD, HEAD_IDS}
    if embed:
        ends.add(EMBEDDING)
    inside = tuple(f"model.layers.{index}." for index in blocks)
    every = expected_tensors(config).items()
    if embed:
        inside += ("fusion.",)
    return {name: shape for name, shape in every if name in ends or name.startswith(inside)}


def _norms(config: ModelConfig) -> dict[str, Shape]:
    """Return the norms around a block's halves."""
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config.output_norms:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    return {f"{name}.weight": (config.hidden_size,) for name in norms}


def _delta(config: ModelConfig, delta: Delta) -> dict[str, Shape]:
    """Return a gated delta layer and the norms around it; `rate` is -exp(A_log)."""
    hidden, heads = config.hidden_size, delta.value_heads
    return _norms(config) | {
        "linear_attn.in_proj_qkv.weight": (delta.channels, hidden),
        "linear_attn.in_proj_b.weight": (heads, hidden),
        "linear_attn.in_proj_a.weight": (heads, hidden),
        "linear_attn.in_proj_z.weight": (delta.mixed, hidden),
        "linear_attn.conv1d.weight": (delta.channels, delta.width),
        "linear_attn.rate": (heads,),
        "linear_attn.dt_bias": (heads,),
        "linear_attn.norm.weight": (delta.value_dim,),
        "linear_attn.out_proj.weight": (hidden, delta.mixed),
    }


def _attention(config: ModelConfig, block: BlockConfig) -> dict[str, Shape]:
    """Attention and the norms around it; where it is gated, the query of a head, then its gate."""
    hidden, dim = config.hidden_size, block.head_dim
    queries, keys = block.heads * dim, block.kv_heads * dim
    tensors = _norms(config)
    if config.qk_norm:
        normed = block.projections[:2]
        tensors |= {f"self_attn.{name}_norm.weight": (dim,) for name in normed}
    if config.sinks:
        tensors["self_attn.sinks"] = (block.heads,)
    rows = {"q": queries * (2 if block.gated else 1), "k": keys, "v": keys}
    for name in block.projections:
        tensors |= _linear(f"self_attn.{name}_proj", rows[name], hidden, config.qkv_bias)
    return tensors | _linear("self_attn.o_proj", hidden, queries, config.attention_out_bias)


def _feed_forward(config: ModelConfig, block: BlockConfig) -> dict[str, Shape]:
    hidden, experts = config.hidden_size, block.experts
    if experts is None:
        return _gated("mlp", hidden, block.inner, config.mlp_bias)
    tensors = _linear("mlp.router", experts.count, hidden, experts.bias)
    for expert in range(experts.count):
        prefix = f"mlp.experts.{expert}"
        tensors |= _gated(prefix, hidden, experts.intermediate_size, experts.bias)
    if experts.shared:
        tensors |= _linear("mlp.shared_expert_gate", 1, hidden, bias=False)
        tensors |= _gated("mlp.shared_expert", hidden, experts.intermediate_size, bias=False)
    return tensors


def _gated(prefix: str, hidden: int, inner: int, bias: bool) -> dict[str, Shape]:
    return (
        _linear(f"{prefix}.gate_proj", inner, hidden, bias)
        | _linear(f"{prefix}.up_proj", inner, hidden, bias)
        | _linear(f"{prefix}.down_proj", hidden, inner, bias)
    )


def _linear(name: str, rows: int, columns: int, bias: bool) -> dict[str, Shape]:
    weight: dict[str, Shape] = {f"{name}.weight": (rows, columns)}
    return weight | {f"{name}.bias": (rows,)} if bias else weight
