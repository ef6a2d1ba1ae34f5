"""A finished model as one GGUF file in 8 bits, as llama.cpp and all that is built on it read it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from safetensors.torch import load_file

from engine.errors import UserFixable
from engine.language import tr
from engine.train.checkpoint import write_whole
from engine.train.draft_folder import to_json

_FAMILY = "llama"
_SPLIT = "qwen2"
"""The name of the way that `vocabulary` cuts texts."""
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
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
_NORMAL, _CONTROL = 1, 3


def pack(folder: Path, out: Path, title: str, draft: str | None = None) -> Path:
    """Write a folder's Llama, tokenizer and template into `out`.

    Args:
        folder: as `training.write_model` leaves it.
        out: of the result; its file has the folder's name.
        title: for people.
        draft: path of its draft, relative to `out`.

    Returns:
        The file. Vectors stay in fp32, matrices are Q8_0.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{out.name}.gguf"
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        _write(folder, new, title)
        new.replace(file)
    except OSError as error:
        raise UserFixable(
            tr("{file} cannot be written.").format(file=file),
            tr("Make room on the disk, or choose another folder."),
            str(error),
        ) from error
    finally:
        new.unlink(missing_ok=True)
    sidecar = {"name": title} if draft is None else {"name": title, "draft": draft}
    write_whole(out / "duotail.json", to_json(sidecar))
    return file


def _write(folder: Path, file: Path, title: str) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    writer = gguf.GGUFWriter(file, _FAMILY)
    writer.add_name(title)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    _add_shape(writer, config)
    _add_vocabulary(writer, folder, config)
    for name, tensor in load_file(folder / "model.safetensors").items():
        values = tensor.float().numpy()
        for which, heads in (("q_proj", "attention"), ("k_proj", "key_value")):
            if which in name:
                values = neighbours(values, config[f"num_{heads}_heads"])
        kind = Kind.F32 if values.ndim == 1 else Kind.Q8_0
        writer.add_tensor(stored_name(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stored_name(name: str) -> str:
    """What GGUF calls a tensor of Hugging Face's."""
    whole, _, kind = name.rpartition(".")
    if not whole.startswith("model.layers."):
        return f"{_NAMES[whole]}.{kind}"
    _, _, block, part = whole.split(".", 3)
    return f"blk.{block}.{_NAMES[part]}.{kind}"


def neighbours(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of queries or keys in llama.cpp's order: what turns together stands side by side."""
    pairs = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _add_shape(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])


def _add_vocabulary(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    described = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    ids = described["model"]["vocab"]
    control = {token["content"] for token in described["added_tokens"] if token["special"]}
    tokens = sorted(ids, key=ids.__getitem__)
    merges = described["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_SPLIT)
    writer.add_token_list(tokens)
    writer.add_token_types([_CONTROL if token in control else _NORMAL for token in tokens])
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(ids[settings["pad_token"]])
    writer.add_add_bos_token(False)  # the template writes it
    writer.add_chat_template(settings["chat_template"])
