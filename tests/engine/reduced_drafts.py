"""Folders of small random draft models with output rows for some tokens only."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile

import gguf
import numpy as np
from head_folders import block, llama, noise
from safetensors.numpy import load_file, save_file

from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.model.model_files import PACKED
from engine.model.text.vocabulary.same_tokens import fingerprint

HIDDEN, BLOCKS = 64, 2


def write_reduced(folder: Path, target: Path, seed: int = 0) -> Path:
    """A draft model for a target; half of the tokens have a row."""
    model = LocalModel.inspect(target)
    assert isinstance(model.config, ModelConfig)
    vocab = model.config.vocab_size
    ids = np.sort(np.random.default_rng(seed).choice(vocab, vocab // 2, replace=False))
    own = {
        "rows": len(ids),
        "target": "Some target",
        "vocabulary": fingerprint(model.tokenizer().vocabulary),
    }
    config = llama(model.config, BLOCKS) | {"hidden_size": HIDDEN, "duotail_draft": own}
    tensors = {
        "model.embed_tokens.weight": noise((vocab, HIDDEN)),
        "model.norm.weight": noise((HIDDEN,)),
        "lm_head.weight": noise((len(ids), HIDDEN)),
        "lm_head.ids": ids.astype(np.int32),
    }
    for index in range(BLOCKS):
        tensors |= block(f"model.layers.{index}.", HIDDEN)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_packed(folder: Path, out: Path, kind: str) -> Path:
    """A draft's folder with its matrices in one of ggml's types, in one GGUF file."""
    stored = gguf.GGMLQuantizationType[kind.upper()]
    out.mkdir()
    writer = gguf.GGUFWriter(out / PACKED, "duotail-draft")
    for name, tensor in load_file(folder / "model.safetensors").items():
        if tensor.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(tensor, stored), raw_dtype=stored)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    copyfile(folder / "config.json", out / "config.json")
    return out / PACKED
