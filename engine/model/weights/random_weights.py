"""Random weights of any shape in any type, made quickly: speed does not depend on the values.

Also those of feature heads, what they borrow from a target included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import HEAD_IDS, expected_tensors
from engine.model.weights.readable import Floats, Stretch
from engine.model.weights.reader import widened

LANES = 16
GROUPS = 61
"""Different groups of 16 rows in random weights; best a prime, so that nothing repeats in step."""
PIECE_BYTES = 4 << 20

_SCALES: Mapping[str, tuple[tuple[int, float], ...]] = {
    "Q4_0": ((0, 1),),
    "Q4_1": ((0, 1), (2, -7.5)),
    "Q5_0": ((0, 1),),
    "Q5_1": ((0, 1), (2, -15.5)),
    "Q8_0": ((0, 1),),
    "Q2_K": ((80, 1), (82, 1.5)),
    "Q3_K": ((108, 1),),
    "Q4_K": ((0, 1), (2, 7.5)),
    "Q5_K": ((0, 1), (2, 15.5)),
    "Q6_K": ((208, 1),),
    "IQ4_NL": ((0, 1),),
    "IQ4_XS": ((0, 1),),
}
"""The bytes at which a block has its fp16 scales, and their ratio, such that its mean is about 0.

All other bits of a block may be anything.
"""

_EVEN = np.float32(12**0.5)
"""Width of an even distribution whose spread is 1."""

_FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class RandomWeights:
    """Weights of a shape, made on demand: the same groups of rows over and over, in random order.

    The spread keeps hidden states of the usual size through the layers.

    Args:
        kinds: the type of every matrix by its canonical name.
        readable: types that the reader knows; matrices of others are widened to fp32 for it. None:
            it knows all.
        groups: different groups of 16 rows.
    """

    def __init__(
        self,
        config: ModelConfig,
        kinds: Mapping[str, str],
        seed: int = 0,
        readable: Collection[str] | None = None,
        groups: int = GROUPS,
    ) -> None:
        self._shapes, self._vocab = expected_tensors(config), config.vocab_size
        self._kinds = kinds
        self._seed, self._readable, self._count = seed, readable, groups
        self._groups: dict[tuple[str, int], NDArray[np.uint8]] = {}

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._shapes[name]

    def kind(self, name: str) -> str:
        """The type of the stretches; vectors are in fp32."""
        kind = self._kinds.get(name, "F32")
        return kind if self._readable is None or kind in self._readable else "F32"

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array."""
        extents = self._shapes[name]
        if name == HEAD_IDS:
            return spread_ids(extents[0], self._vocab)
        if len(extents) == 1:
            usual = -0.1 if name.endswith(".rate") else 1.0 if "norm" in name else 0.01
            return np.full(extents, usual, dtype=np.float32)
        return np.concatenate([widened(part, self._kinds[name]) for part in self._rows(name)])

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix from top to bottom, some megabytes at a time, in the same memory."""
        kind = self._kinds[name]
        for part in self._rows(name):
            same = self.kind(name) == kind
            yield part.view(_FLOATS.get(kind, np.uint8)) if same else widened(part, kind)

    def _rows(self, name: str) -> Iterator[NDArray[np.uint8]]:
        """The stored rows of a matrix in bytes, some megabytes at a time."""
        rows, cols = self._shapes[name]
        kind = self._kinds[name]
        groups = self._some_groups(kind, cols)
        order = self._rng(name).integers(0, self._count, -(-rows // LANES))
        most = max(PIECE_BYTES // groups.shape[1], 1)
        room = np.empty((min(most, len(order)), groups.shape[1]), dtype=np.uint8)
        for first in range(0, len(order), most):
            chosen = order[first : first + most]
            part = room[: len(chosen)]
            np.take(groups, chosen, axis=0, out=part, mode="clip")  # "raise" would copy
            yield part.reshape(len(chosen) * LANES, -1)[: rows - first * LANES]

    def _some_groups(self, kind: str, cols: int) -> NDArray[np.uint8]:
        """Bytes of GROUPS groups of 16 rows, one after the other."""
        found = self._groups.get((kind, cols))
        if found is None:
            rng = self._rng(f"{kind} {cols}")
            found = random_rows(kind, self._count * LANES, cols, rng).reshape(self._count, -1)
            self._groups[kind, cols] = found
        return found

    def _rng(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *name.encode()])


def spread_ids(rows: int, vocab: int) -> Floats:
    """The tokens of a head that can propose `rows` of them: all over the vocabulary, ascending."""
    return (np.arange(rows) * vocab // rows).astype(np.float32)


def random_rows(kind: str, rows: int, cols: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return rows as ggml stores them, [rows, bytes per row], of about the spread cols**-0.5.

    Args:
        kind: ggml's type.
        rows: how many.
        cols: numbers in a row.
        rng: source of the bits.
    """
    spread = np.float32(cols**-0.5)
    if kind in _FLOATS:
        noise = (rng.random((rows, cols), dtype=np.float32) - np.float32(0.5)) * (spread * _EVEN)
        if kind == "BF16":
            return (noise.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return noise.astype(_FLOATS[kind]).view(np.uint8)
    stored = KIND_OF_NAME[kind]
    blocks = rng.integers(0, 256, (rows, cols // stored.numbers, stored.nbytes), dtype=np.uint8)
    _set_scales(blocks, kind, 1.0, rng)
    unscaled = widened(blocks[:16].reshape(-1, blocks.shape[1] * stored.nbytes), kind).std()
    _set_scales(blocks, kind, float(spread / unscaled), rng)
    return blocks.reshape(rows, -1)


def _set_scales(
    blocks: NDArray[np.uint8], kind: str, size: float, rng: np.random.Generator
) -> None:
    """Scales of about `size`, a little different from block to block."""
    shape = blocks.shape[:2]
    if kind == "MXFP4":  # a power of two, 127 stands for 1
        blocks[..., 0] = np.clip(127 + round(np.log2(size)) + rng.integers(-1, 2, shape), 1, 254)
        return
    sizes = size * rng.uniform(0.7, 1.3, shape)
    if len(_SCALES[kind]) == 1:
        sizes *= rng.choice((-1, 1), shape)  # integers go one further down than up
    for place, ratio in _SCALES[kind]:
        halves = (sizes * ratio).astype("<f2")
        blocks[..., place : place + 2] = halves[..., None].view(np.uint8)
