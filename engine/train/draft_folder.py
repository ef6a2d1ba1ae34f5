"""What a training leaves behind: a folder with a head, or with a model of its own."""

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

TEXT_FILES = (
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
"""Of the target, what a model of its own needs to be chatted with."""


def write_draft(
    folder: Path, name: str, config: ModelConfig, tensors: Mapping[str, Tensor], target: Target
) -> None:
    """Write weights (bf16) and what describes them; config.json, by which it is known, last.

    Args:
        folder: of the result.
        name: for people.
        config: of the draft.
        tensors: by canonical name; `HEAD_IDS` among them for a draft of few rows.
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
        for file in TEXT_FILES:
            if (target.path / file).is_file():
                write_whole(folder / file, (target.path / file).read_bytes())
    write_whole(folder / "duotail.json", to_json({"name": name}))
    write_whole(folder / "config.json", to_json(_described(config, target)))


def described(config: ModelConfig) -> dict[str, object]:
    """As transformers writes a Llama's."""
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


def _described(config: ModelConfig, target: Target) -> dict[str, object]:
    """Describe the draft; a head and a model of few rows also name their target."""
    found = described(config)
    if config.fusion is None and config.rows is not None:
        found["duotail_draft"] = {
            "rows": config.rows,
            "target": target.name,
            "vocabulary": fingerprint(target.tokenizer.vocabulary),
        }
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
    return found


def to_json(data: Mapping[str, object]) -> bytes:
    """As it is written into folders."""
    return (json.dumps(data, indent=1) + "\n").encode()
