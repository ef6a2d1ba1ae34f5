"""The weights of a segment's blocks as the native library reads them: packed, in memory."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose
from engine.backend.native.library import (
    PARTS,
    BlockStruct,
    DeltaStruct,
    ExpertsStruct,
    Format,
    FusionStruct,
    Matrix,
    Mlp,
    library,
)
from engine.backend.native.matrix import EMPTY, LANES, NATIVE_KINDS, Packed, pack
from engine.backend.native.memory import Arena
from engine.backend.native.pool import ThreadPool
from engine.backend.native.workspace import set_heads
from engine.backend.shared import NO_LOAN, Loan, Shared
from engine.model.config import BlockConfig, Delta, Fusion, ModelConfig, RopeConfig
from engine.model.config import Experts as ExpertsConfig
from engine.model.weights.readable import Floats, Readable, Weights

VECTOR = 32
"""Norms are padded with zeros to a multiple of this, as activations are."""
TOGETHER = 64
"""Tokens that ranking looks at together."""


class BlockPacker:
    """Packs what a segment needs of a model's weights.

    Args:
        fmt: of all matrices but the routers; None leaves every matrix as it is stored.
        account: where they are entered.
        shared: matrices of the model that other segments have.
        loan: those of another model.

    Attributes:
        packed, vectors, experts: the memory of everything that was handed out.
        borrowed: those of `packed` that another segment had packed.
        ropes: the different ways in which the blocks rotate.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        fmt: Format | None,
        pool: ThreadPool,
        account: Account,
        shared: Shared[Packed],
        loan: Loan = NO_LOAN,
    ) -> None:
        self._arena, self._account, self._loan = Arena(account), account, loan
        self._config, self._weights, self._format, self._pool = config, weights, fmt, pool
        self._shared = shared.of(weights)
        self.packed: list[Packed] = []
        self.borrowed: list[Packed] = []
        self.vectors: list[NDArray[Any]] = []
        self.experts: list[c.Array[Mlp]] = []
        self.ropes: list[RopeConfig] = []

    def block(self, index: int) -> BlockStruct:
        """A whole decoder block."""
        prefix, own = f"model.layers.{index}.", self._config.blocks[index]
        if own.delta is None:
            block = self._attention(f"{prefix}self_attn.", own, index)
        else:
            block = self._delta(f"{prefix}linear_attn.", own.delta)
        self._norms(block, index)
        if own.experts is None:
            block.inner, block.mlp = own.inner, self._mlp(f"{prefix}mlp.")
        else:
            block.experts = self._mixture(f"{prefix}mlp.", own.experts)
        return block

    def _attention(self, prefix: str, own: BlockConfig, index: int) -> BlockStruct:
        config, out = self._config, f"{prefix}o_proj"
        qkv = [f"{prefix}{part}_proj" for part in own.projections]
        block = BlockStruct(
            in_=(Matrix * PARTS)(*self._parts(qkv)),
            out=self.matrix(f"{out}.weight"),
            in_bias=self._bias(config.qkv_bias, qkv),
            out_bias=self._bias(config.attention_out_bias, [out]),
            attention_scale=own.attention_scale,
            rope=-1 if own.rope is None else self._rope(own.rope),
            window=own.window,
        )
        set_heads(block, own, 0 if own.shares_kv_with is None else index - own.shares_kv_with)
        return block

    def _delta(self, prefix: str, delta: Delta) -> BlockStruct:
        """Pack a gated delta layer; what decides about its memory is never quantised here."""
        qkv, z = (f"{prefix}in_proj_{part}.weight" for part in ("qkv", "z"))
        gates = [self._unquantised(f"{prefix}in_proj_{part}.weight") for part in "ba"]
        weights = self._weights.float32(f"{prefix}conv1d.weight").T
        padding = np.zeros(LANES, dtype=np.float32)
        struct = DeltaStruct(
            key_heads=delta.key_heads,
            value_heads=delta.value_heads,
            key_dim=delta.key_dim,
            value_dim=delta.value_dim,
            width=delta.width,
            tiled=delta.tiled,
            convolution=self._keep([weights.ravel(), padding]),
            rate=self.vector(f"{prefix}rate"),
            dt_bias=self.vector(f"{prefix}dt_bias"),
            norm=self.vector(f"{prefix}norm.weight"),
        )
        return BlockStruct(
            in_=(Matrix * PARTS)(self.matrix(qkv), *gates, self.matrix(z)),
            out=self.matrix(f"{prefix}out_proj.weight"),
            rope=-1,
            delta=struct,
        )

    def _norms(self, block: BlockStruct, index: int) -> None:
        config, prefix = self._config, f"model.layers.{index}."
        names = {"input_norm": "input_layernorm"}
        if index == 0 and config.fusion is not None and not config.fusion.steps.first_norm:
            names = {}
        if config.output_norms:
            names["attention_norm"] = "post_attention_layernorm"
            names["post_norm"] = "pre_feedforward_layernorm"
            names["mlp_norm"] = "post_feedforward_layernorm"
        else:
            names["post_norm"] = "post_attention_layernorm"
        attends = config.blocks[index].delta is None
        if config.qk_norm and attends:
            names["query_norm"] = "self_attn.q_norm"
        if config.qk_norm and config.blocks[index].stores_kv:
            names["key_norm"] = "self_attn.k_norm"
        for field, name in names.items():
            setattr(block, field, self.vector(f"{prefix}{name}.weight"))
        if config.sinks and attends:
            block.sinks = self.vector(f"{prefix}self_attn.sinks")

    def _rope(self, rope: RopeConfig) -> int:
        """Index of a rotation among the segment's."""
        if rope not in self.ropes:
            self.ropes.append(rope)
        return self.ropes.index(rope)

    def _mlp(self, prefix: str) -> Mlp:
        gate_up, down = [f"{prefix}{part}_proj" for part in ("gate", "up")], f"{prefix}down_proj"
        return Mlp(
            gate_up=(Matrix * 2)(*self._parts(gate_up)),
            down=self.matrix(f"{down}.weight"),
            gate_up_bias=self._bias(self._config.mlp_bias, gate_up),
            down_bias=self._bias(self._config.mlp_bias, [down]),
        )

    def _mixture(self, prefix: str, config: ExpertsConfig) -> ExpertsStruct:
        router, inner, hidden = (
            f"{prefix}router",
            config.intermediate_size,
            self._config.hidden_size,
        )
        experts = [f"{prefix}experts.{expert}." for expert in range(config.count)]
        gate_up = [[f"{expert}gate_proj", f"{expert}up_proj"] for expert in experts]
        down = [[f"{expert}down_proj"] for expert in experts]
        mlps = (Mlp * (config.count + config.shared))()
        parts = self._stack(gate_up, inner), self._stack(down, hidden)
        for mlp, both, (last,) in zip(mlps[: config.count], *parts, strict=True):
            mlp.gate_up, mlp.down = (Matrix * 2)(*both), last
        if config.bias:
            starts = self._biases(chain(*gate_up)), self._biases(chain(*down))
            for index, mlp in enumerate(mlps):
                mlp.gate_up_bias = starts[0] + index * 2 * inner * c.sizeof(c.c_float)
                mlp.down_bias = starts[1] + index * hidden * c.sizeof(c.c_float)
        routers = [self._unquantised(f"{router}.weight"), EMPTY]
        if config.shared:
            routers[1] = self._unquantised(f"{prefix}shared_expert_gate.weight")
            mlps[config.count] = self._mlp(f"{prefix}shared_expert.")
        self.experts.append(mlps)
        return ExpertsStruct(
            router=(Matrix * 2)(*routers),
            router_bias=self._bias(config.bias, [router]),
            expert=mlps,
            count=config.count,
            used=config.used,
            intermediate=inner,
            normalise=config.normalise,
            shared=config.shared,
        )

    def _stack(self, experts: Sequence[Sequence[str]], rows: int) -> list[list[Matrix]]:
        """Return each expert's matrices that share one output.

        They are packed as one where possible, as there may be thousands.
        """
        names = [f"{layer}.weight" for layer in chain(*experts)]
        if rows % LANES or len(set(map(self._format_of, names))) > 1:
            return [self._parts(layers) for layers in experts]
        whole = self.matrix(*names)
        height = whole.rows // len(experts)
        step = library().dt_packed_bytes(whole.format, height, whole.cols)
        starts = (whole.data + index * step for index in range(len(experts)))
        return [[Matrix(start, whole.format, height, whole.cols)] for start in starts]

    def _unquantised(self, name: str) -> Matrix:
        """Pack a matrix as it is stored, such as a router: small, its choices all or nothing."""
        kind = self._weights.kind(name) if isinstance(self._weights, Readable) else ""
        return self._pack([name], NATIVE_KINDS.get(kind, Format.F32))

    def matrix(self, *names: str) -> Matrix:
        """The named matrices, all of one format, one below the other."""
        return self._pack(names, self._format_of(names[0]))

    def _pack(self, names: Sequence[str], fmt: Format) -> Matrix:
        key = (*names, fmt)
        packed = self._shared.get(key) or self._loan.find(Packed, names[0], fmt)
        if packed is not None:
            self.borrowed.append(packed)
        else:
            packed = self._shared[key] = pack(self._pool, self._weights, names, fmt, self._arena)
            if packed.mapped:
                entry = self._account.take(Purpose.WEIGHTS, packed.nbytes, mapped=True)
                entry.lasts_as_long_as(packed.data)
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
        if name in self._loan.lent:
            return NATIVE_KINDS[self._loan.lent[name].kind]
        if self._format is not None:
            return self._format
        return NATIVE_KINDS[self._readable.kind(name)]

    @property
    def _readable(self) -> Readable:
        if not isinstance(self._weights, Readable):
            raise TypeError("these weights do not tell how they are stored")
        return self._weights

    def _bias(self, present: bool, layers: Sequence[str]) -> int | None:
        return self._biases(layers) if present else None

    def _biases(self, layers: Iterable[str]) -> int:
        return self._keep([self._weights.float32(f"{layer}.bias") for layer in layers])

    def vector(self, name: str) -> int:
        """Address of a norm's weights, or of sinks."""
        vector = self._weights.float32(name)
        return self._keep([vector, np.zeros(-len(vector) % VECTOR, dtype=np.float32)])

    def token_ids(self, name: str) -> int:
        """Address of whole numbers, padded so that they can be read 64 at a time."""
        ids = self._weights.float32(name)
        kept = self._arena.take((len(ids) + -len(ids) % TOGETHER) * 4).view(np.int32)
        kept[: len(ids)] = ids
        self.vectors.append(kept)
        return kept.ctypes.data

    def _keep(self, parts: Sequence[Floats]) -> int:
        joined = np.concatenate(parts)
        kept = self._arena.take(joined.nbytes).view(np.float32)
        kept[:] = joined
        self.vectors.append(kept)
        return kept.ctypes.data


def pack_fusion(fusion: Fusion, packer: BlockPacker) -> FusionStruct:
    """Pack a fusion's matrices and vectors; the packer keeps their memory."""
    steps = fusion.steps
    struct = FusionStruct(
        width=fusion.width,
        gated=steps.gated,
        residual_normed=fusion.residual_normed,
        returns_normed=steps.returns_normed,
    )
    for field in ("feature", "token", "join"):
        if name := getattr(steps, field):
            setattr(struct, field, packer.matrix(f"{name}.weight"))
    for field in ("token_norm", "feature_norm"):
        if name := getattr(steps, field):
            setattr(struct, field, packer.vector(name))
    if fusion.bias and steps.join:
        struct.bias = packer.vector(f"{steps.join}.bias")
    return struct
