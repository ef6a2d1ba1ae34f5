"""Models of random weights for the check: published shapes, or tiny ones to rehearse with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from card.steps import Check

if TYPE_CHECKING:
    from engine.backend.device import Device
    from engine.bench.random_model import RandomModel
    from engine.model.config import ModelConfig


def config_of(check: Check, shape: str) -> ModelConfig:
    """Return a published shape, or what stands for it."""
    from engine.bench.shapes import shape as published
    from engine.model.families import parse_config

    if not check.rehearse:
        return published(shape)
    return parse_config(
        {
            "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
            "vocab_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 16384,
            "tie_word_embeddings": False,
        }
    )  # fmt: skip


def model_of(check: Check, shape: str, wanted: str) -> RandomModel:
    """Return a model of random weights."""
    from engine.bench.random_model import RandomModel

    return RandomModel(shape, config_of(check, shape), wanted)


def opened(check: Check, stack: str, budget: int | None = None) -> Device:
    """Open a stack's device."""
    from engine.backend.real_device import open_accelerator

    return open_accelerator(check.device(stack), budget)
