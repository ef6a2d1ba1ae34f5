"""A model whose matrices are stored in quantised blocks, each in another format."""

from __future__ import annotations

from collections.abc import Iterator

from full_models import RandomWeights
from stored_blocks import random_rows, widened

from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Floats, Stretch

KINDS = (
    ("Q4_K", "Q6_K", "Q5_K", "IQ4_XS", "Q3_K", "Q2_K", "Q5_1", "MXFP4"),
    ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "IQ4_NL", "Q6_K"),
)


def stored_config() -> ModelConfig:
    """Widths that K-quants have blocks for."""
    return parse_config(
        {
            "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
            "vocab_size": 320, "num_hidden_layers": 2, "num_attention_heads": 8,
            "num_key_value_heads": 2, "max_position_embeddings": 640,
            "tie_word_embeddings": False,
        }
    )  # fmt: skip


class Stored:
    """Its weights; `some`: which of KINDS."""

    def __init__(self, config: ModelConfig, some: int = 0) -> None:
        self._floats, self._kinds = RandomWeights(config), KINDS[some]
        names = sorted(expected_tensors(config))
        self._matrices = [name for name in names if name.endswith("_proj.weight")]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._floats.shape(name)

    def kind(self, name: str) -> str:
        if name not in self._matrices:
            return self._floats.kind(name)
        place = self._matrices.index(name.replace("up_proj", "gate_proj"))  # which are always alike
        return self._kinds[place % len(self._kinds)]

    def stretches(self, name: str) -> Iterator[Stretch]:
        if name not in self._matrices:
            yield from self._floats.stretches(name)
            return
        rows = self._rows(name)
        for first in range(0, len(rows), 16):
            yield rows[first : first + 16]

    def float32(self, name: str) -> Floats:
        if name not in self._matrices:
            return self._floats.float32(name)
        return widened(self._rows(name), self.kind(name))

    def _rows(self, name: str) -> Stretch:
        rows, cols = self.shape(name)
        return random_rows(self.kind(name), rows, cols, seed=len(name) + ord(name[13]))
