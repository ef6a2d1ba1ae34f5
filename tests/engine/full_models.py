"""A random model with every feature that a config can ask for, in sizes that divide by nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.native.segment import NativeBackend
from engine.commands import KvType
from engine.model.config import Activation, BlockConfig, Experts, ModelConfig, RopeConfig
from engine.model.tensors import HEAD_IDS, expected_tensors
from engine.model.weights.random_weights import spread_ids
from engine.model.weights.readable import Floats, Stretch

PARTIAL = RopeConfig(dim=12)
WHOLE = RopeConfig(dim=20, theta=1e6, kind="linear", factor=2.0)

_BLOCK = BlockConfig(PARTIAL, heads=6, kv_heads=2, head_dim=20, attention_scale=0.3, inner=90)
BLOCKS = (
    replace(_BLOCK, window=24),
    replace(_BLOCK, rope=None, experts=Experts(7, 3, 40, normalise=True, bias=True)),
    replace(_BLOCK, rope=WHOLE, window=5, experts=Experts(20, 4, 48, normalise=False, bias=True)),
    _BLOCK,
)
"""Windows shorter than a chunk and than a tree; a block without positions."""


_LOCAL = replace(_BLOCK, window=24)
_GLOBAL = replace(
    _BLOCK, rope=RopeConfig(dim=36), heads=4, kv_heads=1, head_dim=36, inner=130,
    attention_scale=0.2,
)  # fmt: skip
UNEVEN = (
    _LOCAL,
    _GLOBAL,
    replace(_LOCAL, inner=300, shares_kv_with=0),
    replace(_GLOBAL, inner=33, shares_kv_with=1),
    replace(_BLOCK, heads=3, kv_heads=3, head_dim=12, gated=True, inner=64),
    replace(_GLOBAL, heads=8, kv_heads=4, experts=Experts(5, 2, 24, normalise=True, bias=True)),
)
"""Blocks as Gemma 3n and 4 have them, and more: of other sizes, some with the keys of others."""


def full_config(activation: Activation = "swiglu_oai") -> ModelConfig:
    """Everything switched on."""
    return ModelConfig(
        family="llama",
        vocab_size=323,
        hidden_size=72,
        rms_norm_eps=1e-6,
        max_positions=640,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_ids=(2,),
        blocks=BLOCKS,
        qkv_bias=True,
        attention_out_bias=True,
        mlp_bias=True,
        activation=activation,
        attention_softcap=3.0,
        logit_softcap=5.0,
        embedding_scale=8.5,
        qk_norm=True,
        output_norms=True,
        sinks=True,
    )


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Every tensor its own noise, norms around 1; two experts of each mixture always tie.

    Matrices hold numbers that both 16-bit formats have.
    """

    config: ModelConfig

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return _shapes(self.config)[name]

    def kind(self, name: str) -> str:
        """How it is stored: matrices that are multiplied together are not alike."""
        return "F16" if ".v_proj." in name or ".up_proj." in name else "BF16"

    def stretches(self, name: str) -> Iterator[Stretch]:
        """The matrix in one piece."""
        values = self.float32(name)
        if self.kind(name) == "F16":
            yield values.astype(np.float16)
        else:
            yield (values.view(np.uint32) >> 16).astype(np.uint16)

    def float32(self, name: str) -> Floats:
        """The tensor."""
        return _values(self.config, name).copy()


_shapes = cache(expected_tensors)


@cache  # models are built of it again and again
def _values(config: ModelConfig, name: str) -> Floats:
    extents = _shapes(config)[name]
    if name == HEAD_IDS:
        return spread_ids(extents[0], config.vocab_size)
    rng = np.random.default_rng(list(name.encode()))
    noise = rng.standard_normal(extents, dtype=np.float32)
    if ".router." in name:
        noise[4] = noise[1]
    if name.endswith("norm.weight"):
        return 1 + np.float32(0.2) * noise
    values = noise * np.float32(0.3 if len(extents) == 1 else 1.5 * extents[1] ** -0.5)
    values[np.abs(values) < 1e-3] = 0
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


def uneven_config() -> ModelConfig:
    """The same with blocks that differ in heads, sizes, and whose keys they look at."""
    return replace(full_config(), blocks=UNEVEN)


def full_decoder(
    fmt: Format | None,
    pool: ThreadPool | None = None,
    kv: KvType = KvType.F16,
    config: ModelConfig | None = None,
) -> Decoder:
    """The model in one of the native formats; None: in two of them."""
    config = config or full_config()
    backend = NativeBackend(fmt, pool or shared_pool(), kv=kv)
    return Decoder.build(config, RandomWeights(config), backend)
