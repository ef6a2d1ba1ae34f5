"""A model's weights under their canonical names, read from whatever its files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING
from engine.model.weights.layout import HEADS, layout, mismatch, unmentioned
from engine.model.weights.parts import FileKind, StoredPart
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.model.weights.source import BYTES, STRETCH_BYTES, TensorSource, widened
from engine.model.weights.stored import not_finite

_GROUP = 16
"""Stretches are multiples of so many rows: backends pack as many at a time."""

_EVEN = np.uint64(0x0F0F0F0F0F0F0F0F)
_NIBBLE = np.uint64(4)
_BLOCK = np.dtype([("scale", np.uint8), ("numbers", "V16")])
"""MXFP4 in ggml: 32 numbers, two in a byte, behind their scale."""


class ModelWeights:
    """The tensors that a config describes, by canonical name, as backends read them.

    See `engine.backend.segment.Readable`.
    """

    __slots__ = ("_parts", "_source")

    def __init__(self, source: TensorSource, parts: Mapping[str, StoredPart]) -> None:
        self._source, self._parts = source, parts

    @classmethod
    def open(cls, config: ModelConfig, source: TensorSource, file_kind: FileKind) -> Self:
        """Find and check everything; reads no weights, but for a head that should be tied.

        Raises:
            UserFixable: the files hold other tensors than the config describes, or some that
                cannot be read.
        """
        where = str(source.files[0].parent) if source.files else ""
        shapes = {name: source.shape(name) for name in source.names()}
        weights = cls(source, layout(config, shapes, file_kind, where))
        weights._check_kinds(where)
        embedding = weights._parts[EMBEDDING].stored
        used = weights._used
        for name in source.names():
            if name.endswith(HEADS) and name not in used and not source.same_bytes(name, embedding):
                raise unmentioned(name, where)
        return weights

    @classmethod
    def of_parts(cls, source: TensorSource, parts: Mapping[str, StoredPart], where: str) -> Self:
        """Those whose places are known and checked.

        Raises:
            UserFixable: some cannot be read.
        """
        weights = cls(source, parts)
        weights._check_kinds(where)
        return weights

    @classmethod
    def of_folder(cls, config: ModelConfig, folder: Path) -> Self:
        """Those of a folder with safetensors; see `open`."""
        return cls.open(config, SafetensorsFolder.open(folder), "safetensors")

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that are used, as stored."""
        return sum(self._source.stored_bytes(name) for name in self._used)

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return self._source.files

    def names(self) -> tuple[str, ...]:
        """Canonical names of all tensors."""
        return tuple(self._parts)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._parts[name].shape

    def kind(self, name: str) -> str:
        """What `stretches` gives, in ggml's words: "F32", "F16", "BF16", "Q4_K", ..."""
        part = self._parts[name]
        return "MXFP4" if part.scales is not None else self._source.kind(part.stored)

    def stored_bytes(self, name: str) -> int:
        """Bytes that a tensor takes in its file."""
        part = self._parts[name]
        stored = sum(self._source.stored_bytes(tensor) for tensor, _ in part.tensors)
        return stored * math.prod(part.shape) // max(self._numbers(part), 1)

    def float32(self, name: str, *, check_finite: bool = False) -> NDArray[np.float32]:
        """A C-contiguous float32 copy of a tensor.

        `check_finite` refuses NaN and infinity with a `UserFixable`.
        """
        part = self._parts[name]
        if len(part.shape) == 1:
            values = self._vector(part)
        else:
            values = np.empty(part.shape, dtype=np.float32)
            kind, done = self.kind(name), 0
            for stretch in self.stretches(name):
                values[done : done + len(stretch)] = widened(stretch, kind)
                done += len(stretch)
        if check_finite and not np.isfinite(values).all():
            raise not_finite(f"{part.stored} in {self._source.files[0].parent}")
        return values

    def stretches(self, name: str) -> Iterator[NDArray[Any]]:
        """A matrix as it is stored, some megabytes of rows at a time (a multiple of 16).

        In float32, float16, or uint16 for the bits of BF16; in bytes where blocks are no floats.
        A stretch is valid until the next one is asked for.
        """
        part = self._parts[name]
        rows = part.shape[0]
        if part.transposed:
            yield from self._turned(part)
            return
        if part.step == 1 and not part.pairs and part.scales is None:
            yield from self._source.stretches(part.stored, part.first, rows)
            return
        head = rows // part.pairs if part.pairs else 1
        row_bytes = max(self.stored_bytes(name) * part.step // rows, 1)
        unit = math.lcm(_GROUP, head)
        most = max(STRETCH_BYTES // row_bytes // unit, 1) * unit
        for start in range(0, rows, most):
            count = min(most, rows - start)
            piece = self._gathered(part, part.stored, start, count)
            if part.scales is not None:
                scales = self._gathered(part, part.scales[0], start, count)
                piece = _mxfp4_blocks(piece, scales)
            yield np.ascontiguousarray(_unpaired(piece, head) if part.pairs else piece)

    @property
    def _used(self) -> set[str]:
        return {tensor for part in self._parts.values() for tensor, _ in part.tensors}

    def _numbers(self, part: StoredPart) -> int:
        """Numbers in the stored tensor; a byte of MXFP4 blocks has two."""
        return math.prod(part.whole) * (2 if part.scales is not None else 1)

    def _check_kinds(self, where: str) -> None:
        for part in self._parts.values():
            if part.scales is None:
                self._source.check_readable(part.stored)
            elif any(self._source.kind(tensor) != BYTES for tensor, _ in part.tensors):
                raise mismatch(tr("{name} cannot be read").format(name=part.stored), where)

    def _gathered(self, part: StoredPart, tensor: str, start: int, count: int) -> NDArray[Any]:
        """Rows `start` on of a part, out of the span of stored rows that holds them."""
        span = (count - 1) * part.step + 1
        pieces = [
            piece.copy()
            for piece in self._source.stretches(tensor, part.first + start * part.step, span)
        ]
        return np.concatenate(pieces)[:: part.step]

    def _turned(self, part: StoredPart) -> Iterator[NDArray[Any]]:
        """Columns of one expert's matrix as rows."""
        _, columns, width = part.whole
        expert, offset = divmod(part.first, width)
        pieces = self._source.stretches(part.stored, expert * columns, columns)
        matrix = np.concatenate([piece.copy() for piece in pieces])
        rows = matrix.T[offset :: part.step][: part.shape[0]]
        most = max(STRETCH_BYTES // (columns * matrix.itemsize) // _GROUP, 1) * _GROUP
        for start in range(0, len(rows), most):
            yield np.ascontiguousarray(rows[start : start + most])

    def _vector(self, part: StoredPart) -> NDArray[np.float32]:
        """Numbers of a stored vector, or of one row of a matrix of vectors."""
        if len(part.whole) == 1:
            values, first = self._source.float32(part.stored), part.first
        else:
            row, first = divmod(part.first, part.whole[-1])
            (stretch,) = self._source.stretches(part.stored, row, 1)
            values = widened(stretch, self._source.kind(part.stored)).reshape(-1)
        values = values[first :: part.step][: part.shape[0]]
        if part.pairs:
            values = _unpaired(values[:, None], len(values) // part.pairs)[:, 0]
        return np.array(values + 1 if part.plus_one else values, dtype=np.float32, order="C")


def _unpaired(rows: NDArray[Any], head: int) -> NDArray[Any]:
    """Rows of whole heads in order, from neighbouring pairs (0, half, 1, half + 1, ...)."""
    pairs = rows.reshape(-1, head // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _mxfp4_blocks(blocks: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """ggml's blocks [rows, blocks * 17] from pairs [rows, blocks * 16] and scales [rows, blocks].

    A byte holds two neighbours in Hugging Face's files, but numbers j and j + 16 of a block in
    ggml's, where the scale comes first.
    """
    halves = blocks.reshape(-1).view(np.uint64).reshape(-1, 2)  # numbers below 16, from 16 on
    low, high = np.ascontiguousarray(halves.T)
    numbers = np.empty(blocks.size, dtype=np.uint8)
    numbers[0::2] = (low & _EVEN | (high & _EVEN) << _NIBBLE).view(np.uint8)
    numbers[1::2] = (low >> _NIBBLE & _EVEN | high & ~_EVEN).view(np.uint8)
    result = np.empty(scales.size, dtype=_BLOCK)
    result["scale"] = scales.reshape(-1)
    result["numbers"] = numbers.view("V16")
    return result.view(np.uint8).reshape(len(scales), -1)
