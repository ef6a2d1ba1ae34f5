"""Small models of random weights, compiled by a device's own backend: what is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.native.workspace import kv_token_bytes
from engine.backend.segment import SegmentCache
from engine.backend.step import Step
from engine.commands import KvType, WeightFormat
from engine.machine.facts import CPU
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import expected_tensors
from engine.model.weights.random_weights import RandomWeights
from engine.model.weights.readable import Stretch

CONTEXT = 1536
"""Tokens in the KV cache, for forwards that attend to them."""

MOST_ROWS = 64
FEW_GROUPS = 7
OWNER = "calibration"


@dataclass(frozen=True, slots=True)
class SmallShape:
    """Widths of a Llama, and its numbers of query and KV heads."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int

    def config(self, blocks: int) -> ModelConfig:
        """Return the config of a model with so many blocks."""
        return parse_config(
            {
                "model_type": "llama",
                "num_hidden_layers": blocks,
                "hidden_size": self.hidden,
                "intermediate_size": self.inner,
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads,
                "head_dim": HEAD_DIM,
                "vocab_size": 64,
                "max_position_embeddings": CONTEXT + MOST_ROWS,
                "rms_norm_eps": 1e-6,
                "tie_word_embeddings": True,
                "hidden_act": "silu",
            }
        )

    def block_bytes(self, kind: str) -> int:
        """Return the bytes of one block's weights."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * HEAD_DIM
        numbers = attention + 3 * self.hidden * self.inner
        return numbers * KIND_OF_NAME[kind].nbytes // KIND_OF_NAME[kind].numbers


HEAD_DIM = 64
WIDE = SmallShape(2048, 8192, 32, 8)
"""A middling size of the models that people run: products take nearly all of its time."""

NARROW = SmallShape(512, 1024, 16, 4)
"""A shape that spends a good part of its time beside its products."""

TINY = SmallShape(256, 768, 4, 2)
"""A shape of models that fit into caches."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A timed forward, and what it went through.

    Attributes:
        context: tokens before the new ones.
        weight_bytes: of all blocks.
        kv_bytes: per token and block.
        queries: heads of queries per head of keys and values.
    """

    rows: int
    context: int
    blocks: int
    weight_bytes: int
    kv_bytes: int
    queries: int
    seconds: float

    @property
    def positions(self) -> float:
        """Positions that a row attends to on average, its own included."""
        return self.context + (self.rows + 1) / 2


class _Weights(RandomWeights):
    """Random weights whose making can be cancelled between pieces of some megabytes."""

    def __init__(self, config: ModelConfig, kind: str, check: Callable[[], None]) -> None:
        matrices = (name for name, shape in expected_tensors(config).items() if len(shape) == 2)
        super().__init__(config, dict.fromkeys(matrices, kind), groups=FEW_GROUPS)
        self._check = check

    def stretches(self, name: str) -> Iterator[Stretch]:
        """See `RandomWeights`."""
        for part in super().stretches(name):
            self._check()
            yield part


class SmallModel:
    """Blocks of a form on a device, without embedding and head.

    Args:
        device: where they are compiled.
        kind: of the weights.
        form: of the blocks.
        blocks: how many.
        context: tokens that forwards may look back on.
        kv: type of keys and values, on the processor with the native library.
        check: called several times a second; may raise `Cancelled`.

    Raises:
        OutOfMemory: the device's budget is too small.
    """

    def __init__(
        self,
        device: Device,
        kind: str,
        form: SmallShape,
        blocks: int,
        *,
        context: int = 0,
        kv: KvType = KvType.F16,
        check: Callable[[], None],
    ) -> None:
        config = form.config(blocks)
        portable = device.name == CPU and not native_is_built()
        backend = device.backend(
            WeightFormat.F32 if portable else WeightFormat.STORED, OWNER, kv=kv
        )
        self.form, self.blocks = form, blocks
        numbers = 2 * form.kv_heads * HEAD_DIM
        self.kv_bytes = numbers * 4 if portable else kv_token_bytes(form.kv_heads, HEAD_DIM, kv)
        self._segment = backend.compile(
            config, _Weights(config, kind, check), range(blocks), embed=False, head=False
        )
        self._cache = self._filled_cache(context)
        self._hidden = np.random.default_rng(0).standard_normal(
            (MOST_ROWS, form.hidden), dtype=np.float32
        )

    def _filled_cache(self, context: int) -> SegmentCache:
        """Room for the context and new rows, the context's memory touched."""
        cache = self._segment.new_cache(context + MOST_ROWS)
        if context:
            cache.copy_prefix(self._segment.new_cache(context), context)
        return cache

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of all blocks."""
        return self._segment.weight_bytes

    def run(self, rows: int, context: int) -> None:
        """Run one forward over `rows` new tokens behind `context`."""
        step = Step(range(rows), range(-1, rows - 1), context)
        self._segment.run(step, self._cache, self._hidden[:rows])

    def sample(self, rows: int, context: int, seconds: float) -> Sample:
        """Return the sample of a forward that took so many seconds."""
        queries = self.form.heads // self.form.kv_heads
        sizes = self.blocks, self.weight_bytes, self.kv_bytes, queries
        return Sample(rows, context, *sizes, seconds)
