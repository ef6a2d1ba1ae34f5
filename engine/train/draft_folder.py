"""The folder that a training writes: weights, and a config.json that also tells what is trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from engine.errors import NotPossible, UserFixable
from engine.language import tr
from engine.model.config import FusionKind, ModelConfig
from engine.model.families import read_config
from engine.model.heads.reading import (
    OUR_ARCHITECTURE,
    OUR_MODEL,
    OURS,
    read_head,
    read_reduced,
)
from engine.model.json_object import JsonObject
from engine.model.tensors import HEAD, HEAD_IDS
from engine.train.recording import write_whole
from engine.train.settings import DraftKind, DraftShape

_FUSIONS: dict[DraftKind, FusionKind] = {
    DraftKind.DGF: "dgf",
    DraftKind.EAGLE: "linear",
    DraftKind.EAGLE3: "eagle3",
}
_TEXT_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
"""Files of the target that a model of its own needs to be chatted with."""


def describe_draft(
    shape: DraftShape, target: ModelConfig, name: str, vocabulary: str
) -> JsonObject:
    """Return the config.json of a draft, with blocks as transformers describes a Llama's.

    A head's blocks are as wide as the target's. Positions are rotated as the target does, but
    without its scaling: heads are trained at short positions.

    Args:
        shape: what is wanted.
        target: the model that it drafts for.
        name: of the target.
        vocabulary: fingerprint of the target's tokens.

    Raises:
        UserFixable: the hidden size cannot be divided among the attention heads.
        NotPossible: the target has too few blocks for the taps.
    """
    rows = shape.rows if shape.rows < target.vocab_size else None
    head = shape.kind is not DraftKind.MODEL
    ends = list(target.eos_token_ids)
    found: dict[str, object] = {
        "architectures": [OUR_ARCHITECTURE if head else "LlamaForCausalLM"],
        "model_type": "llama",
        **(_head_blocks(shape, target) if head else _model_blocks(shape, target)),
        "vocab_size": target.vocab_size,
        "max_position_embeddings": target.max_positions,
        "hidden_act": "silu",
        "tie_word_embeddings": rows is None and (target.tie_word_embeddings or not head),
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": target.bos_token_id,
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "torch_dtype": "bfloat16",
    }
    if head:
        found[OURS] = {
            "fusion": _FUSIONS[shape.kind],
            "target_hidden_size": target.hidden_size,
            "taps": _taps(shape.kind, target.num_layers),
            "bias": shape.kind is DraftKind.EAGLE,
            "rows": rows,
            "target": name,
            "target_layers": target.num_layers,
        }
    elif rows is not None:
        found[OUR_MODEL] = {"rows": rows, "target": name, "vocabulary": vocabulary}
    return JsonObject(found, "config.json")


def draft_config(
    described: JsonObject, target: ModelConfig, *, borrows: bool = False
) -> ModelConfig:
    """Return the config of a draft, as it will be read from its folder.

    Args:
        described: its config.json.
        target: the model that it drafts for.
        borrows: whether the output rows of a head stay the target's.

    Raises:
        UserFixable: numbers that no draft can have.
    """
    if described.has(OURS):
        own = (described.member(OURS) or described).has("rows") and not borrows
        return read_head(described, (HEAD,) if own else ()).for_target(target, "", "")
    reduced = read_reduced(described)
    config = read_config(described) if reduced is None else reduced.config
    return replace(config, bos_token_id=target.bos_token_id, eos_token_ids=target.eos_token_ids)


def write_draft(
    folder: Path, name: str, described: JsonObject, tensors: Mapping[str, Tensor], target: Path
) -> None:
    """Write weights in bf16, then the files that describe them.

    config.json comes last: by it the folder is recognised as a draft.

    Args:
        folder: of the result.
        name: shown to users.
        described: the config.json.
        tensors: by canonical name, with `HEAD_IDS` for a draft of few rows.
        target: folder or file of the model that it drafts for.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    stored = {
        key: value.to(torch.int32 if key == HEAD_IDS else torch.bfloat16)
        for key, value in tensors.items()
    }
    write_whole(folder / "model.safetensors", save(stored, {"format": "pt"}))
    if not described.has(OURS) and not described.has(OUR_MODEL):
        for file in _TEXT_FILES:
            if (target / file).is_file():
                write_whole(folder / file, (target / file).read_bytes())
    write_whole(folder / "duotail.json", _to_json({"name": name}))
    write_whole(folder / "config.json", _to_json(described.data))


def _head_blocks(shape: DraftShape, target: ModelConfig) -> dict[str, object]:
    own = target.typical
    rope = next((block.rope for block in target.blocks if block.rope is not None), None)
    return {
        "hidden_size": target.hidden_size,
        "intermediate_size": shape.intermediate or own.inner,
        "num_hidden_layers": shape.blocks,
        "num_attention_heads": own.heads,
        "num_key_value_heads": own.kv_heads,
        "head_dim": own.head_dim,
        "rms_norm_eps": target.rms_norm_eps,
        "rope_theta": 10_000.0 if rope is None else rope.theta,
    }


def _model_blocks(shape: DraftShape, target: ModelConfig) -> dict[str, object]:
    hidden = shape.hidden or max(target.hidden_size // 2, 64)
    heads = shape.heads or max(hidden // 64, 1)
    if hidden % heads or hidden // heads % 2:
        raise UserFixable(
            tr("{hidden} numbers cannot be divided among {heads} attention heads.").format(
                hidden=hidden, heads=heads
            ),
            tr("Choose a hidden size that is an even multiple of the number of heads."),
        )
    return {
        "hidden_size": hidden,
        "intermediate_size": shape.intermediate or hidden * 11 // 4,
        "num_hidden_layers": shape.blocks,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
    }


def _taps(kind: DraftKind, layers: int) -> list[int]:
    """Return the blocks that a head taps: a low, a middle and a high one, as EAGLE-3's authors do.

    Raises:
        NotPossible: the target has too few blocks.
    """
    if kind is not DraftKind.EAGLE3:
        return []
    if layers < 3:
        raise NotPossible(
            tr("The model has too few layers for an EAGLE-3 head."),
            tr("Train a head of the kind dgf or eagle."),
        )
    return [1, layers // 2 - 1, layers - 4] if layers >= 8 else [0, layers // 2, layers - 1]


def _to_json(data: Mapping[str, object]) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()
