"""The weights of an encoder, under one set of names, whatever file they lie in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import psutil
from numpy.typing import NDArray

from engine.encoder.config import EncoderConfig
from engine.errors import UserFixable
from engine.language import tr
from engine.language.units import file_size
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.weights.reader import TensorReader

Floats = NDArray[np.float32]

_ENDS = {
    "tokens": ("token_embd", "embeddings.word_embeddings"),
    "positions": ("position_embd", "embeddings.position_embeddings"),
    "types": ("token_types", "embeddings.token_type_embeddings"),
    "norm": ("token_embd_norm", "embeddings.LayerNorm", "emb_ln"),
}
_IN_BLOCK = {
    "query": ("attn_q", "attention.self.query", "self_attn.q_proj"),
    "key": ("attn_k", "attention.self.key", "self_attn.k_proj"),
    "value": ("attn_v", "attention.self.value", "self_attn.v_proj"),
    "out": ("attn_output", "attention.output.dense", "self_attn.o_proj", "attn.out_proj"),
    "attention_norm": (
        *("attn_output_norm", "attention.output.LayerNorm", "post_attention_layernorm", "norm1"),
    ),
    "gate": ("ffn_gate", "mlp.gate_proj", "mlp.fc12"),
    "up": ("ffn_up", "intermediate.dense", "mlp.up_proj", "mlp.fc11"),
    "down": ("ffn_down", "output.dense", "mlp.down_proj", "mlp.fc2"),
    "norm": ("layer_output_norm", "output.LayerNorm", "post_mlp_layernorm", "norm2"),
}
_BLOCKS = ("blk.{}.", "encoder.layer.{}.", "layers.{}.", "encoder.layers.{}.")
_PREFIXES = ("", "bert.", "roberta.", "nomic_bert.", "model.")
_FUSED = ("attn_qkv", "attn.Wqkv")
_SPARE = 512 << 20
"""Bytes of memory that others are left with."""


class EncoderWeights:
    """Tensors in float32, by names such as "tokens", "3.query" and "3.query.bias".

    Args:
        config: of the encoder.
        reader: of its files.

    Raises:
        UserFixable: a tensor is missing, of another shape, or no numbers; or memory is short.
    """

    def __init__(self, config: EncoderConfig, reader: TensorReader) -> None:
        self._config, self._reader = config, reader
        self.nbytes = 4 * sum(int(np.prod(reader.shape(name))) for name in reader.names())
        if self.nbytes + _SPARE > (free := psutil.virtual_memory().available):
            raise UserFixable(
                tr("The embedding model needs {need} of memory, and {free} are free.").format(
                    need=file_size(self.nbytes), free=file_size(free)
                ),
                tr("Choose a smaller one, or close other programs."),
            )
        self._found: dict[str, Floats] = {}
        self._read()

    def __getitem__(self, name: str) -> Floats:
        return self._found[name]

    def get(self, name: str) -> Floats | None:
        """Return a tensor; None: this encoder has none of that name."""
        return self._found.get(name)

    def _read(self) -> None:
        c = self._config
        self._take("tokens", _ENDS, (c.vocabulary, c.width))
        self._take("types", _ENDS, None, needed=False)
        if c.rotary is None:
            self._take("positions", _ENDS, None)
            if len(self["positions"]) < c.first + c.longest:
                raise _wrong("positions")
        self._vectors("norm", _ENDS, c.width)
        for block in range(c.blocks):
            self._read_block(block)

    def _read_block(self, block: int) -> None:
        c, names = self._config, _of_block(block)
        square = (c.width, c.width)
        if (fused := self._stored(_of_block_named(block, _FUSED), ".weight")) is not None:
            thirds = self._checked(fused, (3 * c.width, c.width)).reshape(3, *square)
            for name, third in zip(("query", "key", "value"), thirds, strict=True):
                self._found[f"{block}.{name}"] = third
        else:
            for name in ("query", "key", "value"):
                self._matrix(f"{block}.{name}", names, square)
        self._matrix(f"{block}.out", names, square)
        if c.gated:
            self._matrix(f"{block}.gate", names, (c.inner, c.width))
        self._matrix(f"{block}.up", names, (c.inner, c.width))
        self._matrix(f"{block}.down", names, (c.width, c.inner))
        for name in ("attention_norm", "norm"):
            self._vectors(f"{block}.{name}", names, c.width)

    def _matrix(
        self, name: str, names: Mapping[str, tuple[str, ...]], shape: tuple[int, int]
    ) -> None:
        self._take(name, names, shape)
        self._take(name, names, shape[:1], leaf="bias", needed=False)

    def _vectors(self, name: str, names: Mapping[str, tuple[str, ...]], width: int) -> None:
        """Read factors and offsets of a norm."""
        self._take(name, names, (width,))
        self._take(name, names, (width,), leaf="bias")

    def _take(
        self,
        name: str,
        names: Mapping[str, tuple[str, ...]],
        shape: tuple[int, ...] | None,
        *,
        leaf: str = "weight",
        needed: bool = True,
    ) -> None:
        """Read a tensor under the first of its names; `shape` None: rows of the width."""
        stored = self._stored(names[name], f".{leaf}")
        if stored is None:
            if needed:
                raise _wrong(names[name][0])
            return
        kept = name if leaf == "weight" else f"{name}.{leaf}"
        rows = self._reader.shape(stored)[0] if self._reader.shape(stored) else 0
        self._found[kept] = self._checked(stored, shape or (rows, self._config.width))

    def _stored(self, names: tuple[str, ...], ending: str) -> str | None:
        found = (f"{prefix}{name}{ending}" for name in names for prefix in _PREFIXES)
        return next((name for name in found if name in self._reader), None)

    def _checked(self, stored: str, shape: tuple[int, ...]) -> Floats:
        if self._reader.shape(stored) != shape:
            raise _wrong(stored)
        return self._reader.float32(stored, check_finite=True)


def _of_block(block: int) -> dict[str, tuple[str, ...]]:
    return {f"{block}.{name}": _of_block_named(block, names) for name, names in _IN_BLOCK.items()}


def _of_block_named(block: int, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(place.format(block) + name for name in names for place in _BLOCKS)


def _wrong(name: str) -> UserFixable:
    return UserFixable(
        tr("The embedding model's weights do not match its description."),
        tr(DOWNLOAD_AGAIN),
        name,
    )
