"""What every family's config.json has: a decoder without biases in which all blocks are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.language import tr
from engine.model.config import BlockConfig, ModelConfig
from engine.model.families.common import activation, head_dim, kv_heads, unsupported
from engine.model.families.positions import rope
from engine.model.json_object import JsonObject

_LAYER_TYPES = ("full_attention", "sliding_attention")


def read_plain(source: JsonObject) -> ModelConfig:
    """Shape and constants; what a family has beyond them is for its own reader."""
    vocab_size = source.integer("vocab_size", 1, 1 << 21)
    hidden_size = source.integer("hidden_size", 1, 1 << 16)
    num_heads = source.integer("num_attention_heads", 1, 1024)
    max_positions = source.integer("max_position_embeddings", 1, 1 << 24)
    dim = head_dim(source, hidden_size, num_heads)
    block = BlockConfig(rope(source, max_positions, dim))
    bos = source.token_ids("bos_token_id", vocab_size)
    return ModelConfig(
        family=source.text("model_type") or "",
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=source.integer("intermediate_size", 1, 1 << 19),
        num_heads=num_heads,
        num_kv_heads=kv_heads(source, num_heads),
        head_dim=dim,
        rms_norm_eps=source.number("rms_norm_eps", 1e-12, 0.1),
        max_positions=max_positions,
        tie_word_embeddings=source.flag("tie_word_embeddings", default=False),
        bos_token_id=bos[0] if bos else None,
        eos_token_ids=source.token_ids("eos_token_id", vocab_size),
        blocks=(block,) * source.integer("num_hidden_layers", 1, 512),
        attention_scale=dim**-0.5,
        activation=activation(source),
    )


def with_windows(
    config: ModelConfig, source: JsonObject, usual: Callable[[int], bool]
) -> ModelConfig:
    """The model with windows where `layer_types` says so, or else where the family usually has one.

    Without a `sliding_window` every block sees the whole text.
    """
    if not source.has("sliding_window"):
        return config
    window = source.integer("sliding_window", 1, 1 << 24)
    blocks = [
        replace(block, window=window) if slides else block
        for block, slides in zip(config.blocks, sliding(source, config, usual), strict=True)
    ]
    return replace(config, blocks=tuple(blocks))


def sliding(source: JsonObject, config: ModelConfig, usual: Callable[[int], bool]) -> list[bool]:
    """Which blocks are of the kind that looks through a window."""
    kinds = source.items("layer_types")
    if not kinds:
        return [usual(index) for index in range(config.num_layers)]
    others = [kind for kind in kinds if kind not in _LAYER_TYPES]
    if others:
        raise unsupported(tr("it has blocks of the kind “{kind}”").format(kind=str(others[0])[:60]))
    if len(kinds) != config.num_layers:
        raise source.wrong(
            "layer_types",
            tr("one entry for each of the {count} blocks").format(count=config.num_layers),
        )
    return [kind == "sliding_attention" for kind in kinds]
