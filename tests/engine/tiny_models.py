"""Small random models in Hugging Face layout, and decoders built from folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.hub.local import bundled_models_root, bundled_target
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.model_weights import ModelWeights

SHAPE: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 640,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write_model(folder: Path, family: str = "llama", *, seed: int = 0, **shape: object) -> Path:
    """A random model of the family, saved by transformers itself."""
    torch.manual_seed(seed)
    if family == "llama":
        config: Any = transformers.LlamaConfig(**{**SHAPE, **shape})
        model: Any = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.Qwen2Config(**{**SHAPE, **shape})
        model = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # transformers starts norms at 1 and biases at 0, which would hide a missing one.
            spread = 0.3 if "norm" in name or name.endswith("bias") else 0.12
            parameter.add_(torch.randn(parameter.shape) * spread)
    model.save_pretrained(folder)
    return folder


def write_chat_model(folder: Path, family: str = "llama", **shape: Any) -> Path:
    """A random model that talks with the bundled model's tokenizer and template."""
    write_model(folder, family, **{"vocab_size": 4096, "eos_token_id": 4, **shape})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bundled_target() / name, folder)
    return folder


def reference(folder: Path) -> transformers.PreTrainedModel:
    """The same folder in transformers, fp32."""
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def decoder(folder: Path) -> Decoder:
    """The same folder in our decoder."""
    config = ModelConfig.from_json(json.loads((folder / "config.json").read_text()))
    return Decoder.build(config, ModelWeights.of_folder(config, folder), TorchCpuBackend())


def bundled_decoder(name: str) -> Decoder:
    """A bundled model."""
    return decoder(bundled_models_root() / name)
