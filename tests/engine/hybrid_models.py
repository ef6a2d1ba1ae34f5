"""Small random models with gated delta layers (Qwen3.5), and transformers' own numbers for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf_models import add_vocabulary
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tiny_models import reference, write_model
from transformers import AttentionInterface

from engine.model.weights.readable import Floats

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


EXPERTS: dict[str, Any] = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "shared_expert_intermediate_size": 40,
}


def write_hybrid(folder: Path, **shape: Any) -> Path:
    """A small random Qwen3.5, text only, saved by transformers itself; with `EXPERTS` a mixture."""
    family = "qwen3_5_moe_text" if "num_experts" in shape else "qwen3_5_text"
    return write_model(folder, family, **{**UNLIKE, **shape})


def with_stacked_experts(folder: Path, to: Path) -> Path:
    """The same mixture with all experts of a block in one tensor, as it is published."""
    to.mkdir(exist_ok=True)
    shutil.copy(folder / "config.json", to)
    tensors = _stacked(load_file(folder / "model.safetensors"))
    for name in [name for name in tensors if name.endswith("experts.gate_proj")]:
        gate, up = tensors.pop(name), tensors.pop(name.replace("gate", "up"))
        tensors[name.replace("gate", "gate_up")] = torch.cat([gate, up], 1)
    save_file(tensors, to / "model.safetensors")
    return to


def _stacked(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Experts' matrices [experts, rows, columns]."""
    together: dict[str, list[torch.Tensor]] = {}
    rest = {}
    for name, tensor in tensors.items():
        block, found, expert = name.partition(".experts.")
        if not found:
            rest[name] = tensor
            continue
        which = expert.split(".")[1]
        together.setdefault(f"{block}.experts.{which}", []).append(tensor)
    return rest | {name: torch.stack(parts) for name, parts in together.items()}


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


def apart(got: Floats, expected: NDArray[np.float32]) -> float:
    """Of the row that is worst."""
    distance = np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return float(distance.max())


_GGUF_LEAVES = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.experts.gate_proj": "ffn_gate_exps.weight",
    "mlp.experts.up_proj": "ffn_up_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
}
_GGUF_OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def write_hybrid_gguf(
    folder: Path,
    file: Path,
    *,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    leave_out: Collection[str] = (),
    more: Mapping[str, Any] = {},
    head: Collection[str] = (),
) -> Path:
    """The Qwen3.5 of a folder as llama.cpp's converter writes it.

    Args:
        folder: with safetensors, and a tokenizer if the file is to have one.
        file: the file to write.
        kind: of matrices whose rows it divides.
        leave_out: steps of the converter that are not done: "plus one", "rate", "tiled".
        more: keys beside, or instead of, those that the config gives.
        head: names of tensors of an MTP head.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    architecture = "qwen35moe" if "num_experts" in config else "qwen35"
    writer = gguf.GGUFWriter(file, architecture)
    for key, value in (_gguf_keys(config) | dict(more)).items():
        whole = f"{architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(whole, value)
        elif isinstance(value, float):
            writer.add_float32(whole, value)
        elif value is not None:
            writer.add_uint32(whole, value)
    if (folder / "tokenizer.json").exists():
        add_vocabulary(writer, folder)
    for name in head:
        writer.add_tensor(name, np.ones(config["hidden_size"], dtype=np.float32))
    for name, tensor in _stacked(load_file(folder / "model.safetensors")).items():
        values = _converted(name, tensor.float().numpy(), config, leave_out)
        stored = kind
        if values.ndim == 1 or values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            stored = GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(values), stored)
        writer.add_tensor(_gguf_name(name), data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _gguf_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    rope, heads = config["rope_parameters"], config["linear_num_value_heads"]
    return {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config.get("intermediate_size"),
        "expert_count": config.get("num_experts"),
        "expert_used_count": config.get("num_experts_per_tok"),
        "expert_feed_forward_length": config.get("moe_intermediate_size"),
        "expert_shared_feed_forward_length": config.get("shared_expert_intermediate_size"),
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": int(config["head_dim"] * rope["partial_rotary_factor"]),
        "rope.dimension_sections": [2, 1, 1, 0],
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": heads,
        "ssm.inner_size": heads * config["linear_value_head_dim"],
        "attention.recurrent_layers": [k == "linear_attention" for k in config["layer_types"]],
    }


def _gguf_name(name: str) -> str:
    if name in _GGUF_OUTSIDE:
        return _GGUF_OUTSIDE[name]
    _, _, block, rest = name.split(".", 3)
    return f"blk.{block}.{_GGUF_LEAVES[rest]}"


def _converted(
    name: str,
    values: NDArray[np.float32],
    config: Mapping[str, Any],
    leave_out: Collection[str],
) -> NDArray[np.float32]:
    inside = name.endswith("linear_attn.norm.weight")
    if name.endswith("norm.weight") and not inside and "plus one" not in leave_out:
        values = values + 1
    if name.endswith("A_log") and "rate" not in leave_out:
        values = -np.exp(values)
    if name.endswith("conv1d.weight"):
        values = values[:, 0]
    if name.endswith("shared_expert_gate.weight"):
        values = values[0]
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    both = 2 * keys * config["linear_key_head_dim"]
    if "linear_attn" not in name or "tiled" in leave_out or inside:
        return values
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        return np.concatenate([values[:both], _tiled(values[both:], keys, heads)])
    if name.endswith("out_proj.weight"):
        return _tiled(values.T, keys, heads).T
    return _tiled(values, keys, heads)


def _tiled(rows: NDArray[np.float32], keys: int, heads: int) -> NDArray[np.float32]:
    """Rows of value heads, those of one key head no longer side by side."""
    grouped = rows.reshape(keys, heads // keys, len(rows) // heads, -1)
    return np.ascontiguousarray(grouped.swapaxes(0, 1)).reshape(rows.shape)
