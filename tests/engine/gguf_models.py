"""Llama models in GGUF, written from Hugging Face folders with the gguf package."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from safetensors.torch import load_file

Choose = Callable[[str], Kind]

_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_BYTE, _CONTROL, _UNKNOWN, _NORMAL = 6, 3, 2, 1


def write_gguf(
    folder: Path,
    file: Path,
    kind: Kind | Choose = Kind.Q8_0,
    *,
    more: Mapping[str, Any] = {},
    parts: int = 0,
    change: Callable[[gguf.GGUFWriter], object] = lambda _: None,
) -> Path:
    """The model of a Hugging Face folder with its matrices in `kind`, and its first file.

    Rows that a kind cannot hold stay in F32. `parts`: tensors per file of a split model. `change`
    has the last word on what is written.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    split = {"split_max_tensors": parts} if parts else {}
    writer = gguf.GGUFWriter(file, "llama", **split)
    _add_config(writer, config)
    add_vocabulary(writer, folder)
    for key, value in more.items():
        writer.add_string(key, value) if isinstance(value, str) else writer.add_uint32(key, value)
    for name, tensor in load_file(folder / "model.safetensors").items():
        stored = _stored_name(name)
        chosen = kind if isinstance(kind, Kind) else kind(stored)
        _add_tensor(writer, stored, _permuted(name, tensor.float().numpy(), config), chosen)
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return min(file.parent.glob(f"{file.stem}*-of-*.gguf")) if parts else file


def _add_config(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    heads = config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_parameters") or config
    writer.add_rope_freq_base(rope.get("rope_theta", 10_000.0))
    writer.add_vocab_size(config["vocab_size"])


def add_vocabulary(writer: gguf.GGUFWriter, folder: Path) -> None:
    described = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    vocabulary = described["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    control = {token["content"] for token in described["added_tokens"] if token["special"]}
    pieces = described["model"].get("byte_fallback", False)
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    if pieces:
        writer.add_token_scores(_scores(folder, tokens))
    else:
        writer.add_tokenizer_pre("smollm")
        merges = described["model"]["merges"]
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_token_list(tokens)
    writer.add_token_types([_type(token, control) for token in tokens])
    writer.add_bos_token_id(vocabulary[settings["bos_token"]])
    writer.add_eos_token_id(vocabulary[settings["eos_token"]])
    if isinstance(settings.get("chat_template"), str):
        writer.add_chat_template(settings["chat_template"])


def _type(token: str, control: set[str]) -> int:
    if token == "<unk>":
        return _UNKNOWN
    if token in control:
        return _CONTROL
    return _BYTE if token.startswith("<0x") else _NORMAL


def _scores(folder: Path, tokens: list[str]) -> list[float]:
    """SentencePiece's, from the file of Karpathy's format beside the folder."""
    raw = (folder / "tok512.bin").read_bytes()
    scores, at = [], 4
    for _ in tokens:
        score, length = struct.unpack_from("<fi", raw, at)
        scores.append(score)
        at += 8 + length
    return scores


def _stored_name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, block, rest = name.split(".", 3)
    return f"blk.{block}.{_NAMES[rest.removesuffix('.weight')]}.weight"


def _permuted(
    name: str, values: NDArray[np.float32], config: Mapping[str, Any]
) -> NDArray[np.float32]:
    """Rows of queries and keys in llama.cpp's order: halves of a head become neighbours."""
    for which, key in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if which in name:
            heads = config[key]
            pairs = values.reshape(heads, 2, len(values) // heads // 2, -1)
            values = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
    return values


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, values: NDArray[np.float32], kind: Kind
) -> None:
    block = gguf.GGML_QUANT_SIZES[kind][0]
    if values.ndim == 1 or values.shape[1] % block:
        kind = Kind.F32
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
