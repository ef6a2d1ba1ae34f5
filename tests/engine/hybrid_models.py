"""Small random models with gated delta layers (Qwen3.5), and transformers' own numbers for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tiny_models import reference, write_model
from transformers import AttentionInterface

UNLIKE: dict[str, Any] = {
    "num_hidden_layers": 5,
    "layer_types": [
        *("linear_attention", "linear_attention", "full_attention"),
        *("linear_attention", "full_attention"),
    ],
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 24,
    "linear_value_head_dim": 16,
}
"""Sizes that all differ, so that none can stand in for another by mistake."""


def write_hybrid(folder: Path, **shape: Any) -> Path:
    """A small random Qwen3.5, text only, saved by transformers itself."""
    return write_model(folder, "qwen3_5_text", **{**UNLIKE, **shape})


def _with_half_keys(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    scaling: float,
    **_more: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a whole text over keys and values rounded to 16 bits, as our cache has them."""
    groups = module.num_key_value_groups
    key, value = (each.half().float().repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
    return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None


def reference_logits(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    """What transformers computes in fp32, but for keys and values: [tokens, vocabulary]."""
    AttentionInterface.register("half_keys", _with_half_keys)
    model: Any = reference(folder)
    model.set_attn_implementation("half_keys")
    masks = {"full_attention": None, "linear_attention": None}
    with torch.no_grad():
        found = model(torch.tensor([tokens]), attention_mask=masks, use_cache=False)
    logits: NDArray[np.float32] = found.logits[0].numpy()
    return logits
