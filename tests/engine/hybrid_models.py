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
import transformers
from gguf import GGMLQuantizationType
from gguf_models import add_vocabulary
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_models import reference, write_model
from transformers import AttentionInterface
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe
from transformers.models.qwen3_next import modeling_qwen3_next

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Backend
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
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


def write_qwen3_next(folder: Path, **shape: Any) -> Path:
    """A small random Qwen3-Next, saved by transformers itself."""
    return write_model(folder, "qwen3_next", **{**UNLIKE, **EXPERTS, **shape})


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
        if expert == "gate_up_proj":
            halves = tensor.chunk(2, 1)
            rest |= {
                f"{block}.experts.{each}_proj": half
                for each, half in zip(("gate", "up"), halves, strict=True)
            }
            continue
        if not found or "." not in expert:
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


def with_mtp(folder: Path, to: Path, seed: int = 3) -> Path:
    """The same model with a random MTP head among its tensors, as it is published."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    torch.manual_seed(seed)
    head: Any = MtpReference(to, random=True)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.zero_().add_(torch.randn(parameter.shape) * (0.3 if "norm" in name else 0.12))
    own = {f"mtp.{name}": tensor for name, tensor in head.state_dict().items()}
    save_file(load_file(to / "model.safetensors") | own, to / "model.safetensors")
    return to


class MtpReference(torch.nn.Module):
    """The MTP head of a folder, written down around transformers' own block and norms."""

    def __init__(self, folder: Path, *, random: bool = False) -> None:
        super().__init__()
        self.config: Any = transformers.AutoConfig.from_pretrained(folder)
        self.config._attn_implementation = "half_keys"
        AttentionInterface.register("half_keys", _with_half_keys)
        mixture = "num_experts" in self.config.to_dict()
        module: Any = modeling_qwen3_5_moe if mixture else modeling_qwen3_5
        kind = "Qwen3_5Moe" if mixture else "Qwen3_5"
        rotation = f"{kind}TextRotaryEmbedding"
        if self.config.model_type == "qwen3_next":
            module, kind, rotation = modeling_qwen3_next, "Qwen3Next", "Qwen3NextRotaryEmbedding"
        norm, hidden = getattr(module, f"{kind}RMSNorm"), self.config.hidden_size
        eps = self.config.rms_norm_eps
        self.fc = torch.nn.Linear(2 * hidden, hidden, bias=False)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden = norm(hidden, eps), norm(hidden, eps)
        index = self.config.layer_types.index("full_attention")
        block = getattr(module, f"{kind}DecoderLayer")(self.config, index)
        self.layers, self.norm = torch.nn.ModuleList([block]), norm(hidden, eps)
        self._turn = [getattr(module, rotation)(self.config)]
        self._family = kind
        if not random:
            stored = load_file(folder / "model.safetensors")
            own = {n.removeprefix("mtp."): t for n, t in stored.items() if n.startswith("mtp.")}
            self.load_state_dict(own)
            self._embedding = stored["model.embed_tokens.weight"]
            self._head = stored.get("lm_head.weight", self._embedding)

    def forward(self, tokens: list[int], features: Floats, own: int) -> tuple[Floats, Floats]:
        """Outputs and logits of a chain whose last `own` pairs take the outputs before them."""
        with torch.no_grad():
            known = torch.from_numpy(features)
            for _ in range(own + 1):
                embedded = self._embedding[tokens[: len(known)]]
                both = self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(known)
                x = self.fc(torch.cat(both, -1))[None]
                places = torch.arange(len(known))[None]
                turn = self._turn[0](
                    x, places if "Next" in self._family else places[None].expand(3, 1, -1)
                )
                found = self.layers[0](x, position_embeddings=turn)
                out = self.norm(found[0] if isinstance(found, tuple) else found)[0]
                known = torch.cat([known, out[-1:]])
            return out.numpy(), (out @ self._head.T).numpy()


def head_of(path: Path, backend: Backend | None = None) -> Decoder:
    """The MTP head in a model's files; usually in floats on the CPU."""
    target = LocalModel.inspect(path)
    model = target.mtp()
    assert isinstance(target.config, ModelConfig)
    assert isinstance(model.config, DraftOnly)
    config = model.config.for_target(target.config, model.name, target.name)
    tied = target.config.tie_word_embeddings
    weights = model.draft_weights(config, target.own_weights(target.config), tied)
    return Decoder.build(config, weights, backend or NativeBackend(Format.F32))


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
    "linear_attn.in_proj_ba.weight": "ssm_ba.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
}
_GGUF_HEAD = {
    "fc.weight": "nextn.eh_proj.weight",
    "pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "norm.weight": "nextn.shared_head_norm.weight",
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
    kinds: Mapping[str, GGMLQuantizationType] = {},
    leave_out: Collection[str] = (),
    more: Mapping[str, Any] = {},
    head: Collection[str] = (),
) -> Path:
    """The Qwen3.5 of a folder as llama.cpp's converter writes it.

    Args:
        folder: with safetensors, and a tokenizer if the file is to have one.
        file: the file to write.
        kind: of matrices whose rows it divides.
        kinds: others, by how names begin.
        leave_out: steps of the converter that are not done: "plus one", "rate", "tiled"; and
            "trunk": the model's own blocks, as in files of MTP heads.
        more: keys beside, or instead of, those that the config gives.
        head: names of tensors of an MTP head.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    architecture = "qwen35moe" if "num_experts" in config else "qwen35"
    if config["model_type"] == "qwen3_next":
        architecture, leave_out = "qwen3next", [*leave_out, "tiled"]
    writer = gguf.GGUFWriter(file, architecture)
    if any(name.startswith("mtp.") for name in stored_names(folder)):
        more = {"nextn_predict_layers": 1, "block_count": config["num_hidden_layers"] + 1} | dict(
            more
        )
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
    tensors = _unfused(_stacked(load_file(folder / "model.safetensors")), config)
    for name, tensor in tensors.items():
        if "trunk" in leave_out and name.startswith("model.layers."):
            continue
        values = _converted(name, tensor.float().numpy(), config, leave_out)
        own = _gguf_name(name, config)
        stored = next((each for start, each in kinds.items() if own.startswith(start)), kind)
        if values.ndim == 1 or values.shape[-1] % gguf.GGML_QUANT_SIZES[stored][0]:
            stored = GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(values), stored)
        writer.add_tensor(own, data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def stored_names(folder: Path) -> list[str]:
    """Names of a folder's tensors."""
    with safe_open(folder / "model.safetensors", "np") as file:
        return list(file.keys())


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


def _unfused(
    tensors: Mapping[str, torch.Tensor], config: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Qwen3-Next's projections as two: all queries, keys and values, and all gates."""
    found = {}
    heads, keys = config["linear_num_key_heads"], config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] // heads * config["linear_value_head_dim"]
    for name, tensor in tensors.items():
        if not name.endswith("in_proj_qkvz.weight"):
            found[name] = tensor
            continue
        parts = tensor.reshape(heads, -1, tensor.shape[1]).split([keys, keys, values, values], 1)
        query, key, value, gate = (part.reshape(-1, tensor.shape[1]) for part in parts)
        found[name.replace("qkvz", "qkv")] = torch.cat([query, key, value])
        found[name.replace("qkvz", "z")] = gate
    return found


def _gguf_name(name: str, config: Mapping[str, Any]) -> str:
    if name in _GGUF_OUTSIDE:
        return _GGUF_OUTSIDE[name]
    if name.startswith("mtp."):
        name, block = name.removeprefix("mtp."), f"blk.{config['num_hidden_layers']}."
        return block + (_GGUF_HEAD.get(name) or _GGUF_LEAVES[name.removeprefix("layers.0.")])
    _, _, block, rest = name.split(".", 3)
    return f"blk.{block}.{_GGUF_LEAVES[rest]}"


def _converted(
    name: str,
    values: NDArray[np.float32],
    config: Mapping[str, Any],
    leave_out: Collection[str],
) -> NDArray[np.float32]:
    inside = name.endswith("linear_attn.norm.weight")
    norm = name.endswith("norm.weight") or ".pre_fc_norm_" in name
    if norm and not inside and "plus one" not in leave_out:
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
