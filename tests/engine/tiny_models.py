"""Small random models in Hugging Face layout, and decoders built from folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from folder_models import FOLDER_TARGET
from safetensors.numpy import load_file, save_file

from engine.backend.decoder import Decoder
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

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


FAMILIES: dict[str, dict[str, Any]] = {
    "phi3": {"pad_token_id": None, "original_max_position_embeddings": 640},
    "gemma2": {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 40},
    "gemma3_text": {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 40},
    "mistral": {"sliding_window": 50},
    "ministral": {"sliding_window": 50, "head_dim": 16},
    "qwen3": {"head_dim": 24},
    "qwen3_moe": {
        "head_dim": 16,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
    },
    "gpt_oss": {
        "head_dim": 16,
        "intermediate_size": 64,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "sliding_window": 40,
    },
}
"""What a family wants to have set in a small model."""


def write_model(
    folder: Path,
    family: str = "llama",
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    **shape: object,
) -> Path:
    """A random model of the family, saved by transformers itself."""
    torch.manual_seed(seed)
    own = {"pad_token_id": None, **FAMILIES.get(family, {})}
    config: Any = transformers.AutoConfig.for_model(family, **{**SHAPE, **own, **shape})
    model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # transformers starts norms at 1 and biases at 0, which would hide a missing one.
            small = "norm" in name or name.endswith(("bias", "sinks"))
            if not small and "experts" in name:
                parameter.zero_()  # some are not initialised at all
            parameter.add_(torch.randn(parameter.shape) * (0.3 if small else 0.12))
    model.to(dtype).save_pretrained(folder)
    return folder


def write_mxfp4_model(folder: Path, **shape: object) -> Path:
    """A gpt-oss whose experts are random numbers in MXFP4, as OpenAI publishes it."""
    file = write_model(folder, "gpt_oss", **shape) / "model.safetensors"
    tensors, rng = load_file(file), np.random.default_rng(0)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        count, columns, rows = tensors.pop(name).shape
        blocks = (count, rows, columns // 32)
        tensors[f"{name}_blocks"] = rng.integers(0, 256, (*blocks, 16), dtype=np.uint8)
        tensors[f"{name}_scales"] = rng.integers(118, 124, blocks, dtype=np.uint8)
    save_file(tensors, file)
    return folder


def write_chat_model(folder: Path, family: str = "llama", **shape: Any) -> Path:
    """A random model that talks with a trained model's tokenizer and template."""
    write_model(folder, family, **{"vocab_size": 4096, "eos_token_id": 4, **shape})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER_TARGET / name, folder)
    return folder


def reference(folder: Path) -> transformers.PreTrainedModel:
    """The same folder in transformers, fp32."""
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def decoder(folder: Path, context: int = 0) -> Decoder:
    """The same folder in our decoder, for so long a context."""
    config = open_config(folder).for_context(context)
    return Decoder.build(config, ModelWeights.of_folder(config, folder), TorchCpuBackend())
