"""Bytes a model takes: embedding, blocks and head by types of weights; KV cache.

What is held is what the native products read: 16 rows side by side, vectors in fp32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.backend.accelerator.sizes import cache_bytes
from engine.backend.decoder import MAX_TREE
from engine.backend.ledger import PAGE
from engine.backend.native.workspace import kv_token_bytes, state_bytes
from engine.backend.sequence import NUMBER
from engine.commands import KvType, WeightFormat
from engine.language import later, tr
from engine.model.config import BlockConfig, Fusion, ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.other_family import OtherConfig
from engine.model.tensors import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    HEAD_IDS,
    UNQUANTISED,
    Shape,
    expected_tensors,
)

KINDS = {
    WeightFormat.Q4: "Q4_0",
    WeightFormat.Q8: "Q8_0",
    WeightFormat.BF16: "BF16",
    WeightFormat.F32: "F32",
}
"""ggml's names of the formats that every matrix can be brought into."""

WORDS = {
    WeightFormat.Q4: later("4-bit integers"),
    WeightFormat.Q8: later("8-bit integers"),
    WeightFormat.BF16: later("16-bit floats"),
    WeightFormat.F32: later("32-bit floats"),
    WeightFormat.STORED: later("the file's own formats"),
}

MAIN_SHARE = 0.05
"""Least share of a model's weights for a type that matters to its speed."""

Numbers = NDArray[np.float64]
Cuts = NDArray[np.bool_]

_LANES, _BLOCK, _CHUNK = 16, 32, 64
_NO_BYTES: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WeightPart:
    """Weights that always lie together: the embedding, a block, the head.

    Attributes:
        dense: bytes by type of what every row goes through.
        experts: bytes by type of all experts together.
        chosen: share of the experts that a row goes through.
    """

    dense: tuple[tuple[str, int], ...] = _NO_BYTES
    experts: tuple[tuple[str, int], ...] = _NO_BYTES
    chosen: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(count for _, count in (*self.dense, *self.experts))

    def read(self, rows: Numbers) -> Iterator[tuple[str, Numbers | int]]:
        """Yield types and bytes that forwards over so many rows read; experts at random."""
        yield from self.dense
        share = 1 - (1 - self.chosen) ** rows
        for kind, count in self.experts:
            yield kind, count * share


class Look(NamedTuple):
    """How a row attends in one block; plans compare thousands.

    Attributes:
        kv_bytes: keys and values of a token that is looked at.
        window: last tokens that are; 0: all.
        key_heads: KV heads.
        queries_per_key: query heads per KV head.
    """

    kv_bytes: int
    window: int = 0
    key_heads: int = 1
    queries_per_key: int = 1


NO_LOOK = Look(0)
"""A block with a state looks at no keys."""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Memory of one model. Instances are compared by identity, so that results can be cached.

    Attributes:
        blocks: as many as there are; alike ones are equal. A head's fusion lies in its first.
        head: with the final norm, and with the output matrix also where that is `embedding`.
        tied: embedding and head share one matrix, held once where both lie on one device.
        kv_of_blocks: bytes of one token's keys and values in each block; 0: it has none of its own.
        states: bytes of one sequence in each block, where it keeps a state instead, however long it
            is; 0: it attends. Empty where all do.
        kind: the types of stored weights in one word, as in "Q4_K_M".
        config: the model's shape; None of a model that runs through transformers.
        kv: type of keys and values on the CPU; F16 also where they are floats of 32 bits.
    """

    format: WeightFormat
    embedding: WeightPart
    blocks: tuple[WeightPart, ...]
    head: WeightPart
    tied: bool
    kv_of_blocks: tuple[int, ...]
    kind: str = ""
    config: ModelConfig | None = None
    kv: KvType = KvType.F16
    states: tuple[int, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights, on one device."""
        matrix = self.embedding.nbytes if self.tied else 0
        return self.embedding.nbytes + int(bytes_upto(self)[-1]) + self.head.nbytes - matrix

    @property
    def kv_bytes_per_token(self) -> int:
        """KV cache bytes of one token in all blocks."""
        return sum(self.kv_of_blocks)

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's states on the CPU."""
        return sum(self.states)

    @property
    def hidden(self) -> int:
        """Numbers of a hidden state."""
        return self.config.hidden_size if self.config else 0

    @property
    def vocab(self) -> int:
        """Tokens that there are logits for."""
        return self.config.head_rows if self.config else 0

    @property
    def fusion(self) -> Fusion | None:
        """Fusion of a feature head; None for other models."""
        return self.config.fusion if self.config else None

    @property
    def feature_bytes_per_token(self) -> int:
        """Bytes per token that the target's sequence keeps on the host for this feature head."""
        return self.fusion.width * NUMBER if self.fusion else 0

    @property
    def looks(self) -> tuple[Look, ...]:
        """How each block attends."""
        if self.config is None:
            return tuple([Look(kv_bytes) for kv_bytes in self.kv_of_blocks])
        kv, looks = self.kv_of_blocks, list[Look]()
        for index, own in enumerate(self.config.blocks):
            owner = index if own.shares_kv_with is None else own.shares_kv_with
            look = Look(kv[owner], own.window, own.kv_heads, own.heads // own.kv_heads)
            looks.append(NO_LOOK if own.delta else look)
        return tuple(looks)

    @property
    def main_kinds(self) -> tuple[str, ...]:
        """Types with a good part of the weights, without those of vectors and routers."""
        counts: Counter[str] = Counter()
        for part in (*self.blocks, self.head):
            for kind, nbytes in (*part.dense, *part.experts):
                counts[kind] += nbytes
        return tuple(kind for kind, count in counts.items() if count > MAIN_SHARE * counts.total())

    @property
    def words(self) -> str:
        """Name of the weights' type, for people."""
        return self.kind or tr(WORDS[self.format])

    def kv_bytes(self, context: int, blocks: range) -> int:
        """Return the bytes of one sequence's cache in some blocks, with room for a tree."""
        own = slice(blocks.start, blocks.stop)
        nbytes = sum(self.kv_of_blocks[own]) * _up(context + MAX_TREE, _CHUNK)
        return nbytes + sum(self.states[own]) if self.states else nbytes

    def feature_bytes(self, context: int) -> int:
        """Return the bytes that one sequence of the target keeps for this head, in whole pages."""
        return _up((context + MAX_TREE) * self.feature_bytes_per_token, PAGE)

    def device_kv_bytes(self, context: int, blocks: range) -> int:
        """Return the bytes of one sequence's KV cache in some blocks on an accelerator."""
        if self.config is None:
            return self.kv_bytes(context, blocks)
        return cache_bytes(self.config, blocks, context + MAX_TREE)


@lru_cache(maxsize=64)  # a plan asks dozens of times
def bytes_upto(held: Footprint) -> NDArray[np.int64]:
    """Return [blocks + 1]: bytes of the first 0, 1, ... blocks."""
    return np.cumsum([0, *(part.nbytes for part in held.blocks)], dtype=np.int64)


@lru_cache(maxsize=64)
def allowed_cuts(held: Footprint) -> Cuts:
    """Return [blocks + 1]: whether the first 0, 1, ... blocks may lie on a device of their own.

    Where keys and values lie, all blocks must that attend to them.
    """
    allowed = np.ones(len(held.blocks) + 1, dtype=np.bool_)
    for index, own in enumerate(held.config.blocks if held.config else ()):
        if own.shares_kv_with is not None:
            allowed[own.shares_kv_with + 1 : index + 1] = False
    return allowed


def weight_count(config: ModelConfig) -> int:
    """Return the numbers in all tensors."""
    return sum(prod(shape) for shape in expected_tensors(config).values())


def footprint(
    config: ModelConfig,
    weights: WeightFormat,
    lent: Mapping[str, str] | None = None,
    kv: KvType = KvType.F16,
) -> Footprint:
    """Return the footprint of a shape; the KV cache of the F32 path is fp32.

    Args:
        config: the shape.
        weights: format of all matrices.
        lent: types by name of the tensors that a feature head borrows from its target.
        kv: the type that is wished for the KV cache.
    """
    kind = KINDS[weights]
    names = (name for name in expected_tensors(config) if not name.endswith(UNQUANTISED))
    return _footprint(config, weights, dict.fromkeys(names, kind) | dict(lent or {}), kv=kv)


def stored_footprint(
    config: ModelConfig, kinds: Mapping[str, str], kind: str, kv: KvType = KvType.F16
) -> Footprint:
    """Return the footprint of a shape whose matrices are held as they are stored.

    Args:
        kinds: the type of every matrix by its canonical name; vectors are held in fp32 anyway.
        kind: all of them in one word.
        kv: type of keys and values.
    """
    return _footprint(config, WeightFormat.STORED, kinds, kind, kv)


def other_footprint(config: OtherConfig, weight_count: int, weights: WeightFormat) -> Footprint:
    """Return the footprint of a model run by transformers, all of it in one type of floats."""
    kind = KINDS[weights]
    size = KIND_OF_NAME[kind].nbytes
    return Footprint(
        format=weights,
        embedding=WeightPart(),
        blocks=(WeightPart(((kind, weight_count * size),)),),
        head=WeightPart(),
        tied=False,
        kv_of_blocks=(config.kv_numbers_per_token * size,),
    )


def _footprint(
    config: ModelConfig,
    weights: WeightFormat,
    kinds: Mapping[str, str],
    kind: str = "",
    kv: KvType = KvType.F16,
) -> Footprint:
    portable = weights is WeightFormat.F32
    if portable:
        kv = KvType.F16
    parts: dict[str, Counter[tuple[str, bool]]] = {}
    for name, shape in expected_tensors(config).items():
        place, experts = _place(name), ".experts." in name
        vector = len(shape) == 1 or name.endswith("conv1d.weight")
        stored = "F32" if vector else kinds.get(name, "F32")
        parts.setdefault(place, Counter())[stored, experts] += held_bytes(
            stored, shape, padded=not (portable or vector)
        )
    if config.tie_word_embeddings:
        parts[HEAD] = parts.get(HEAD, Counter()) + parts[EMBEDDING]
    shares = [own.experts.used / own.experts.count if own.experts else 0 for own in config.blocks]
    return Footprint(
        format=weights,
        embedding=_part(parts[EMBEDDING]),
        blocks=tuple(_part(parts[str(index)], share) for index, share in enumerate(shares)),
        head=_part(parts[HEAD]),
        tied=config.tie_word_embeddings,
        kv_of_blocks=tuple(_kv_bytes(own, None if portable else kv) for own in config.blocks),
        config=config,
        kind=kind,
        kv=kv,
        states=state_bytes(config),
    )


def _kv_bytes(block: BlockConfig, kv: KvType | None) -> int:
    """Return the bytes of one token's keys and values in a block; None: they are fp32."""
    if not block.stores_kv:
        return 0
    if kv is None:
        return 2 * block.kv_heads * block.head_dim * 4
    return kv_token_bytes(block.kv_heads, block.head_dim, kv)


def _place(name: str) -> str:
    """Return the part that a tensor belongs to: a block's number, EMBEDDING or HEAD."""
    if name in (FINAL_NORM, HEAD, HEAD_IDS):
        return HEAD
    if name.startswith("fusion."):
        return "0"
    return EMBEDDING if name == EMBEDDING else name.split(".")[2]


def _part(held: Mapping[tuple[str, bool], int], chosen: float = 0.0) -> WeightPart:
    dense = tuple(sorted((kind, count) for (kind, experts), count in held.items() if not experts))
    experts = tuple(sorted((kind, count) for (kind, experts), count in held.items() if experts))
    return WeightPart(dense, experts, chosen)


def held_bytes(kind: str, shape: Shape, *, padded: bool = True) -> int:
    """Return the bytes of a tensor; `padded`: to whole blocks of the native backend."""
    block = KIND_OF_NAME[kind]
    if len(shape) == 1 or not padded:
        return prod(shape) * block.nbytes // block.numbers
    rows, columns = shape
    return (
        _up(rows, _LANES)
        * _up(columns, max(_BLOCK, block.numbers))
        // block.numbers
        * (block.nbytes)
    )


def _up(count: int, step: int) -> int:
    return count + -count % step
