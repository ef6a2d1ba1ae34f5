"""Small random models that both sides of a comparison can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool
from engine.backend.native.segment import NativeBackend
from engine.bench.forward import Subject
from engine.bench.peer.export import BlockWeights
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Floats, Stretch


def small_config(family: str, **changes: object) -> ModelConfig:
    shape: Mapping[str, object] = {
        "model_type": family,
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "intermediate_size": 224,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 333,
        "max_position_embeddings": 640,
        "tie_word_embeddings": False,
        **changes,
    }
    return parse_config(shape)


@dataclass(frozen=True, slots=True)
class Random:
    """Every tensor its own noise; norms around 1."""

    config: ModelConfig

    def shape(self, name: str) -> tuple[int, ...]:
        return expected_tensors(self.config)[name]

    def kind(self, name: str) -> str:
        del name
        return "F32"

    def stretches(self, name: str) -> Iterator[Stretch]:
        yield self.float32(name)

    def float32(self, name: str) -> Floats:
        extents = expected_tensors(self.config)[name]
        rng = np.random.default_rng(list(name.encode()))
        noise = rng.standard_normal(extents, dtype=np.float32)
        if name.endswith("norm.weight"):
            return 1 + np.float32(0.2) * noise
        return noise * np.float32(0.3 if len(extents) == 1 else extents[1] ** -0.5)


def small_subject(config: ModelConfig, fmt: Format) -> Subject:
    """Our decoder and the weights that it holds."""
    decoder = Decoder.build(config, Random(config), NativeBackend(fmt, ThreadPool(1)))
    return Subject(decoder, config, BlockWeights(config, Random(config), fmt))
