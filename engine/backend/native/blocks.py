"""The weights of a segment's blocks as the library has them: packed, and kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Block, Format, Matrix, Mlp, aligned
from engine.backend.native.matrix import LANES, NATIVE_KINDS, Packed, pack
from engine.backend.native.memory import WEIGHTS
from engine.backend.native.pool import ThreadPool
from engine.backend.segment import Floats, Readable, Weights
from engine.model.config import ModelConfig

VECTOR = 32
"""Norms are padded with zeros to a multiple of this, as activations are."""


class BlockPacker:
    """Packs what a segment needs of a model's weights, and holds it.

    Args:
        fmt: of all matrices; None leaves every matrix as it is stored.
    """

    def __init__(
        self, config: ModelConfig, weights: Weights, fmt: Format | None, pool: ThreadPool
    ) -> None:
        WEIGHTS.begin()  # so that the segment's memory goes back with it
        self._config, self._weights, self._format, self._pool = config, weights, fmt, pool
        self.packed: list[Packed] = []
        self.vectors: list[NDArray[np.float32]] = []

    def block(self, index: int) -> Block:
        """A whole decoder block."""
        prefix, config = f"model.layers.{index}.", self._config
        qkv = [f"{prefix}self_attn.{part}_proj" for part in "qkv"]
        out = f"{prefix}self_attn.o_proj"
        return Block(
            qkv=(Matrix * 3)(*self._parts(qkv)),
            out=self.matrix(f"{out}.weight"),
            qkv_bias=self._bias(config.qkv_bias, qkv),
            out_bias=self._bias(config.attention_out_bias, [out]),
            input_norm=self.vector(f"{prefix}input_layernorm.weight"),
            post_norm=self.vector(f"{prefix}post_attention_layernorm.weight"),
            mlp=self._mlp(f"{prefix}mlp."),
        )

    def _mlp(self, prefix: str) -> Mlp:
        gate_up, down = [f"{prefix}{part}_proj" for part in ("gate", "up")], f"{prefix}down_proj"
        return Mlp(
            gate_up=(Matrix * 2)(*self._parts(gate_up)),
            down=self.matrix(f"{down}.weight"),
            gate_up_bias=self._bias(self._config.mlp_bias, gate_up),
            down_bias=self._bias(self._config.mlp_bias, [down]),
        )

    def matrix(self, *names: str) -> Matrix:
        """The named matrices, all of one format, one below the other."""
        packed = pack(self._pool, self._weights, names, self._format_of(names[0]))
        self.packed.append(packed)
        return packed.struct

    def _parts(self, layers: Sequence[str]) -> list[Matrix]:
        """Matrices with one output: neighbours of a format become one where rows allow it."""
        names = [f"{layer}.weight" for layer in layers]
        if self._format is not None:
            return [self.matrix(*names)]
        parts: list[Matrix] = []
        for _, group in groupby(names, self._format_of):
            alike = list(group)
            together = all(self._readable.shape(name)[0] % LANES == 0 for name in alike)
            parts += [self.matrix(*alike)] if together else map(self.matrix, alike)
        return parts

    def _format_of(self, name: str) -> Format:
        if self._format is not None:
            return self._format
        return NATIVE_KINDS[self._readable.kind(name)]

    @property
    def _readable(self) -> Readable:
        if not isinstance(self._weights, Readable):
            raise TypeError("these weights do not tell how they are stored")
        return self._weights

    def _bias(self, present: bool, layers: Sequence[str]) -> int | None:
        if not present:
            return None
        return self._keep([self._weights.float32(f"{layer}.bias") for layer in layers])

    def vector(self, name: str) -> int:
        """Address of a norm's weights."""
        vector = self._weights.float32(name)
        return self._keep([vector, np.zeros(-len(vector) % VECTOR, dtype=np.float32)])

    def _keep(self, parts: Sequence[Floats]) -> int:
        joined = np.concatenate(parts)
        kept = aligned(len(joined), np.float32)
        kept[:] = joined
        self.vectors.append(kept)
        return kept.ctypes.data
