"""Qwen: Llama with biases on queries, keys and values (Qwen2, Qwen2.5)."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import unsupported
from engine.model.families.llama import read_plain
from engine.model.json_object import JsonObject


def read_qwen2(source: JsonObject) -> ModelConfig:
    """Qwen2 and Qwen2.5."""
    if _slides(source):
        raise unsupported(tr("it uses sliding-window attention"))
    return replace(read_plain(source, "qwen2", default_positions=32768), qkv_bias=True)


def _slides(source: JsonObject) -> bool:
    """Whether any block really looks through a window."""
    if not source.flag("use_sliding_window", default=False) or not source.has("sliding_window"):
        return False
    layer_types = source.items("layer_types")
    if layer_types:
        return "sliding_attention" in layer_types
    full_layers = source.integer("max_window_layers", 0, 1 << 16, default=28)
    return full_layers < source.integer("num_hidden_layers", 1, 512)
