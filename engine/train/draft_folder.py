"""The folder that a training writes: a head, or a model of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS
from engine.model.text.vocabulary.same_tokens import fingerprint
from engine.train.targets import Target
from engine.train.whole_file import write_whole

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


def write_draft(
    folder: Path, name: str, config: ModelConfig, tensors: Mapping[str, Tensor], target: Target
) -> None:
    """Write weights in bf16, then the files that describe them.

    config.json comes last: by it the folder is recognised as a draft.

    Args:
        folder: of the result.
        name: shown to users.
        config: of the draft.
        tensors: by canonical name, with `HEAD_IDS` for a draft of few rows.
        target: the model that it drafts for.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    stored = {
        key: value.to(torch.int32 if key == HEAD_IDS else torch.bfloat16)
        for key, value in tensors.items()
    }
    write_whole(folder / "model.safetensors", save(stored, {"format": "pt"}))
    if config.fusion is None and config.rows is None:
        for file in _TEXT_FILES:
            if (target.path / file).is_file():
                write_whole(folder / file, (target.path / file).read_bytes())
    write_whole(folder / "duotail.json", _to_json({"name": name}))
    write_whole(folder / "config.json", _to_json(_described(config, target)))


def _described(config: ModelConfig, target: Target) -> dict[str, object]:
    """Describe the draft; a head and a model of few rows also name their target."""
    found = _llama(config)
    if (fusion := config.fusion) is not None:
        found["architectures"] = ["DuotailDraftHead"]
        found["duotail_head"] = {
            "fusion": fusion.kind,
            "target_hidden_size": fusion.target_hidden,
            "taps": list(fusion.taps),
            "bias": fusion.bias,
            "rows": config.rows,
            "target": target.name,
            "target_layers": target.config.num_layers,
        }
    elif config.rows is not None:
        found["duotail_draft"] = {
            "rows": config.rows,
            "target": target.name,
            "vocabulary": fingerprint(target.tokenizer.vocabulary),
        }
    return found


def _llama(config: ModelConfig) -> dict[str, object]:
    """Describe blocks as transformers describes a Llama."""
    ends = list(config.eos_token_ids)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope.theta,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tie_word_embeddings,
        "attention_bias": config.qkv_bias,
        "mlp_bias": config.mlp_bias,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "torch_dtype": "bfloat16",
    }


def _to_json(data: Mapping[str, object]) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()
