"""Folders of large models whose weights take no room on the disk: zeros that nobody has written."""

from __future__ import annotations

import json
import shutil
from math import prod
from pathlib import Path

from folder_models import FOLDER_TARGET

from engine.model.families import open_config
from engine.model.tensors import expected_tensors

LLAMA_13B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 5120,
    "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40,
    "num_key_value_heads": 40, "vocab_size": 32000, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "eos_token_id": 4, "hidden_act": "silu",
}  # fmt: skip


def write_hollow_model(folder: Path, config: dict[str, object]) -> Path:
    """A model of this shape in bf16 that talks with a trained model's tokenizer and template."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER_TARGET / name, folder)
    write_hollow_weights(folder)
    return folder


def write_hollow_weights(folder: Path) -> None:
    """The tensors that config.json describes, in bf16."""
    header: dict[str, object] = {}
    end = 0
    for name, shape in expected_tensors(open_config(folder)).items():
        start, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
