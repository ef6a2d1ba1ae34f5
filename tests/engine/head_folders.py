"""Folders of small random draft heads, in every layout that heads are published in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from engine.model.config import ModelConfig

Arrays = dict[str, NDArray[Any]]
BLOCKS = 2
ROWS = 240
"""Tokens that a head of `SHAPE`'s vocabulary proposes, where it proposes not all."""
HEADS, KV_HEADS, DIM, INNER = 6, 2, 16, 96


def llama(target: ModelConfig, blocks: int = 1) -> dict[str, Any]:
    """What all configs say of a head's blocks; their shape is none of the target's."""
    return {
        "model_type": "llama",
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "intermediate_size": INNER,
        "num_hidden_layers": blocks,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": DIM,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
    }


def block(prefix: str, hidden: int, *, columns: int | None = None, first: bool = False) -> Arrays:
    """A Llama block; `first`: without an input norm, as EAGLE and Dovetail begin."""
    queries, keys, inner = HEADS * DIM, KV_HEADS * DIM, columns or hidden
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (queries, inner),
        "self_attn.k_proj.weight": (keys, inner),
        "self_attn.v_proj.weight": (keys, inner),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (INNER, hidden),
        "mlp.up_proj.weight": (INNER, hidden),
        "mlp.down_proj.weight": (hidden, INNER),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if first:
        del shapes["input_layernorm.weight"]
    return {prefix + name: noise(shape) for name, shape in shapes.items()}


_rng = np.random.default_rng(0)


def noise(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Random weights, norms around 1."""
    if len(shape) == 1:
        return (1 + _rng.normal(0, 0.1, shape)).astype(np.float32)
    return _rng.normal(0, shape[1] ** -0.5, shape).astype(np.float32)


def _ours(
    target: ModelConfig, kind: str, blocks: int, few: int | None = None
) -> tuple[dict[str, Any], Arrays]:
    hidden = target.hidden_size
    taps = [0, 2, target.num_layers - 1] if kind == "eagle3" else []
    own = {
        "fusion": kind,
        "target_hidden_size": hidden,
        "taps": taps,
        "bias": kind == "linear",
        "rows": few,
        "target": "Some target",
        "target_layers": target.num_layers,
    }
    config = llama(target, blocks) | {"architectures": ["DuotailDraftHead"], "duotail_head": own}
    tensors: Arrays = {}
    for index in range(blocks):
        joined = 2 * hidden if kind == "eagle3" and not index else None
        first = kind != "eagle3" and not index
        tensors |= block(f"model.layers.{index}.", hidden, columns=joined, first=first)
    if kind == "dgf":
        tensors["fusion.norm.weight"] = noise((hidden,))
        tensors["fusion.feature.weight"] = noise((hidden, hidden))
        tensors["fusion.token.weight"] = noise((hidden, hidden))
        tensors["fusion.gate.weight"] = noise((hidden, 2 * hidden))
    elif kind == "linear":
        tensors["fusion.linear.weight"] = noise((hidden, 2 * hidden))
        tensors["fusion.linear.bias"] = noise((hidden,)) - 1
    else:
        tensors["fusion.features.weight"] = noise((hidden, 3 * hidden))
        tensors["model.layers.0.hidden_norm.weight"] = noise((hidden,))
        tensors["model.norm.weight"] = noise((hidden,))
    return config, tensors if few is None else tensors | few_rows(target, few)


def few_rows(target: ModelConfig, count: int) -> Arrays:
    """An output matrix for some tokens, and which they are."""
    kept = np.sort(_rng.choice(target.vocab_size, count, replace=False))
    matrix = noise((count, target.hidden_size))
    return {"lm_head.weight": matrix, "lm_head.ids": kept.astype(np.int32)}


def dgf(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """What `duotail train-draft` writes unless told."""
    return _ours(target, "dgf", BLOCKS)


def our_linear(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """EAGLE-style, by ourselves."""
    return _ours(target, "linear", 1)


def our_eagle3(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """EAGLE-3-style, by ourselves; all tokens, through the target's output matrix."""
    return _ours(target, "eagle3", 1)


def our_reduced_dgf(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """What `duotail train-draft` writes with a draft vocabulary."""
    return _ours(target, "dgf", 1, rows(target))


def our_reduced_linear(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """EAGLE-style, with a draft vocabulary."""
    return _ours(target, "linear", 1, rows(target))


def our_reduced_eagle3(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """EAGLE-3-style, with a draft vocabulary, by ourselves."""
    return _ours(target, "eagle3", 1, rows(target))


def eagle2(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """EAGLE-1 and 2: a config like any Llama's, an embedding, a linear map with a bias."""
    hidden = target.hidden_size
    tensors = block("layers.0.", hidden, first=True) | {
        "embed_tokens.weight": noise((target.vocab_size, hidden)),
        "fc.weight": noise((hidden, 2 * hidden)),
        "fc.bias": noise((hidden,)) - 1,
    }
    return llama(target) | {"architectures": ["LlamaForCausalLM"], "bias": True}, tensors


def rows(target: ModelConfig) -> int:
    """The same for any vocabulary."""
    return target.vocab_size * 3 // 4


def _eagle3(target: ModelConfig, prefix: str) -> Arrays:
    hidden, count = target.hidden_size, rows(target)
    kept = np.sort(_rng.choice(target.vocab_size, count, replace=False))
    return block(prefix, hidden, columns=2 * hidden) | {
        f"{prefix}hidden_norm.weight": noise((hidden,)),
        "fc.weight": noise((hidden, 3 * hidden)),
        "norm.weight": noise((hidden,)),
        "lm_head.weight": noise((count, hidden)),
        "d2t": kept - np.arange(count),
        "t2d": np.isin(np.arange(target.vocab_size), kept),
    }


def eagle3(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """As its authors publish it; where it takes features from is understood."""
    config = llama(target) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": rows(target),
    }
    return config, _eagle3(target, "midlayer.")


def specforge(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """The same with an embedding of its own, and taps that are named."""
    ids = [1, 2, target.num_layers - 1]
    config = llama(target) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": rows(target),
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True},
    }
    embedding = {"embed_tokens.weight": noise((target.vocab_size, target.hidden_size))}
    return config, _eagle3(target, "midlayer.") | embedding


def speculators(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """Red Hat's."""
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "Some target"}},
        "transformer_layer_config": llama(target),
        "draft_vocab_size": rows(target),
        "target_hidden_size": None,
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": [2, 3, target.num_layers],
    }
    return config, _eagle3(target, "layers.0.")


Maker = Callable[[ModelConfig], tuple[dict[str, Any], Arrays]]


def our_borrowed_rows(target: ModelConfig) -> tuple[dict[str, Any], Arrays]:
    """A head whose few output rows are its target's."""
    config, tensors = our_reduced_dgf(target)
    del tensors["lm_head.weight"]
    return config, tensors


LAYOUTS: dict[str, Maker] = {
    "dgf": dgf,
    "our linear": our_linear,
    "our eagle3": our_eagle3,
    "our reduced dgf": our_reduced_dgf,
    "our borrowed rows": our_borrowed_rows,
    "our reduced linear": our_reduced_linear,
    "our reduced eagle3": our_reduced_eagle3,
    "eagle2": eagle2,
    "eagle3": eagle3,
    "specforge": specforge,
    "speculators": speculators,
}


def write_head(folder: Path, layout: str, target: ModelConfig, **changes: Any) -> Path:
    """A random head for a target; `changes` replace members of its config.json."""
    folder.mkdir(parents=True)
    config, tensors = LAYOUTS[layout](target)
    (folder / "config.json").write_text(json.dumps(config | changes))
    save_file(tensors, folder / "model.safetensors")
    return folder


def change_tensors(folder: Path, change: Callable[[Arrays], object]) -> Path:
    """The folder with other tensors."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return folder
