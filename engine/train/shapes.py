"""Configs of drafts to be trained: a feature head for a target, or a model of its own."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import NotPossible, UserFixable
from engine.language import tr
from engine.model.config import BlockConfig, Fusion, FusionKind, ModelConfig, RopeConfig
from engine.train.settings import DraftKind, DraftShape

_FUSIONS: dict[DraftKind, FusionKind] = {
    DraftKind.DGF: "dgf",
    DraftKind.EAGLE: "linear",
    DraftKind.EAGLE3: "eagle3",
}


def draft_config(shape: DraftShape, target: ModelConfig) -> ModelConfig:
    """Complete a shape for a target; its rows are dropped where the target has no more tokens.

    Raises:
        UserFixable: see `head_config` and `model_config`.
    """
    rows = shape.rows if shape.rows < target.vocab_size else None
    if shape.kind is not DraftKind.MODEL:
        return head_config(target, shape.kind, shape.blocks, shape.intermediate, rows)
    hidden = shape.hidden or max(target.hidden_size // 2, 64)
    return model_config(
        target,
        hidden=hidden,
        blocks=shape.blocks,
        heads=shape.heads or max(hidden // 64, 1),
        intermediate=shape.intermediate or hidden * 11 // 4,
        rows=rows,
    )


def head_config(
    target: ModelConfig,
    kind: DraftKind,
    blocks: int = 1,
    intermediate: int | None = None,
    rows: int | None = None,
) -> ModelConfig:
    """Return the config of a feature head whose blocks are as wide as the target's.

    EAGLE-3's three taps are those of its authors: a low, a middle and a high block.

    Args:
        target: what it drafts for.
        kind: any but MODEL.
        blocks: its depth m.
        intermediate: width of its feed-forwards; None: as in the target.
        rows: tokens that it can propose, with an output matrix of its own; None: all, with the
            target's.

    Raises:
        NotPossible: the target has too few blocks for the taps.
    """
    layers = target.num_layers
    taps: tuple[int, ...] = ()
    if kind is DraftKind.EAGLE3:
        taps = (1, layers // 2 - 1, layers - 4) if layers >= 8 else (0, layers // 2, layers - 1)
        if layers < 3:
            raise NotPossible(
                tr("The model has too few layers for an EAGLE-3 head."),
                tr("Train a head of the kind dgf or eagle."),
            )
    bias, own_head = kind is DraftKind.EAGLE, rows is not None
    fusion = Fusion(_FUSIONS[kind], target.hidden_size, taps, bias=bias, own_head=own_head)
    return replace(
        target,
        family="llama",
        intermediate_size=intermediate or target.intermediate_size,
        blocks=(BlockConfig(_rope(target)),) * blocks,
        attention_scale=target.head_dim**-0.5,
        qkv_bias=False,
        attention_out_bias=False,
        mlp_bias=False,
        activation="silu",
        attention_softcap=0.0,
        logit_softcap=0.0,
        embedding_scale=1.0,
        qk_norm=False,
        output_norms=False,
        sinks=False,
        tie_word_embeddings=target.tie_word_embeddings and not own_head,
        fusion=fusion,
        rows=rows,
    )


def _rope(target: ModelConfig) -> RopeConfig:
    """Return the target's rotation without its scaling: heads are trained at short positions."""
    first = next((block.rope for block in target.blocks if block.rope is not None), None)
    return RopeConfig(target.head_dim, first.theta if first else 10_000.0)


def model_config(
    target: ModelConfig,
    *,
    hidden: int,
    blocks: int,
    heads: int,
    intermediate: int,
    rows: int | None = None,
) -> ModelConfig:
    """Return the config of a small Llama over the target's vocabulary.

    Args:
        target: what it drafts for.
        hidden, blocks, heads, intermediate: its shape.
        rows: tokens that it can propose, with an output matrix of its own; None: all, and its
            embedding is its output matrix.

    Raises:
        UserFixable: the heads do not divide the hidden size into even parts.
    """
    if hidden % heads or hidden // heads % 2:
        raise UserFixable(
            tr("{hidden} numbers cannot be divided among {heads} attention heads.").format(
                hidden=hidden, heads=heads
            ),
            tr("Choose a hidden size that is an even multiple of the number of heads."),
        )
    shape = head_config(target, DraftKind.DGF, blocks, intermediate, rows)
    dim = hidden // heads
    return replace(
        shape,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=dim,
        blocks=(BlockConfig(RopeConfig(dim)),) * blocks,
        attention_scale=dim**-0.5,
        rms_norm_eps=1e-5,
        tie_word_embeddings=rows is None,
        fusion=None,
    )
