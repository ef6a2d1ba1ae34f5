"""Loading a model's files onto a device: matrices as stored, or packed as on the CPU."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.backend.accelerator.matrix import FLOATS, QUANTISED, DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.products import ExpertLinear, Products, StoredLinear
from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.ledger import Purpose
from engine.backend.native.library import Format
from engine.backend.native.matrix import LANES, NATIVE_KINDS
from engine.backend.native.stretches import PACKED, TYPES, kind_of, packed_rows, stored_rows
from engine.backend.shared import NO_LOAN, Loan
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Weights


class Loader:
    """Brings what a segment needs of a model's weights to a device; see `LayerWeights`.

    Matrices that are quantised here are packed by the native backend, so that they are the same
    integers and scales as on the CPU, and one folder of packed weights serves both.

    Args:
        fmt: of all matrices but the routers; STORED leaves every matrix as it is.
        alone: where matrices are entered that a head may borrow.
        loan: of a head, those of its target.

    Attributes:
        matrices: everything that was brought, for counting.
        kinds: the types of everything that is computed with.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        fmt: WeightFormat,
        memory: DeviceAllocator,
        products: Products,
        alone: MutableMapping[Hashable, DeviceMatrix] | None = None,
        loan: Loan = NO_LOAN,
    ) -> None:
        self._alone = {} if alone is None else alone
        self._loan = loan
        self._weights, self._memory, self._products = weights, memory, products
        self._shapes = expected_tensors(config)
        self._native = NATIVE_FORMATS.get(fmt)
        self._stored = fmt is WeightFormat.STORED
        self.matrices: list[DeviceMatrix] = []
        self.kinds: set[str] = set()
        self.vectors: list[torch.Tensor] = []

    def has(self, name: str) -> bool:
        """Tell whether the model has this tensor."""
        return name in self._shapes

    def vector(self, name: str) -> torch.Tensor:
        """Load a norm's weights, or sinks."""
        return self._vector([name])

    def whole_numbers(self, name: str) -> torch.Tensor:
        """Load whole numbers in int32, such as the tokens of a head's rows."""
        return self._kept(self._weights.float32(name).astype(np.int32))

    def linear(self, layers: Sequence[str], *, bias: bool) -> StoredLinear:
        """Load layers with one input, side by side."""
        names = [f"{layer}.weight" for layer in layers]
        joined = self._vector([f"{layer}.bias" for layer in layers]) if bias else None
        return StoredLinear(self._products, self._side_by_side(names), joined)

    def router(self, layer: str, *, bias: bool) -> StoredLinear:
        """Load a router, never quantised here: it is small, and its choices are all or nothing."""
        name = f"{layer}.weight"
        native = None
        if self._native is not None:
            native = NATIVE_KINDS.get(kind_of(self._weights, name), Format.F32)
        matrix = self._stacked(self._kind(name, native), [[name]], native)
        joined = self._vector([f"{layer}.bias"]) if bias else None
        return StoredLinear(self._products, [matrix], joined)

    def experts(self, layers: Sequence[Sequence[str]], *, bias: bool) -> ExpertLinear:
        """Load each expert's layers that share one input."""
        count = len(layers)
        names = [[f"{layer}.weight" for layer in own] for own in layers]
        together = all(self._shapes[name][0] % LANES == 0 for name in names[0])
        if self._native is not None:  # in the groups that the CPU packs
            groups = [list(chain(*names))] if together else names
            parts = [self._stacked(TYPES[self._native], groups, self._native)]
        elif len({self._kind(name) for name in chain(*names)}) == 1:
            parts = [self._stacked(self._kind(names[0][0]), names)]
        else:
            columns = list(zip(*names, strict=True))
            parts = [self._stacked(self._common(column), [column]) for column in columns]
        joined = None
        if bias:
            joined = self._vector([f"{layer}.bias" for layer in chain(*layers)]).view(count, -1)
        return ExpertLinear(self._products, parts, joined, count)

    def matrix(self, name: str) -> DeviceMatrix:
        """One matrix by itself: the embedding, the head; a target's own where it lies here."""
        lent = self._loan.lent.get(name)
        if lent is None:
            (matrix,) = self._side_by_side([name])
            self._alone[name] = matrix
            return matrix
        here = self._loan.find(DeviceMatrix, name)
        if here is not None:
            self.kinds.add(here.kind)
            return here
        kind = lent.kind if lent.kind in FLOATS or lent.kind in QUANTISED else "F32"
        native = None if kind_of(self._weights, name) == kind else PACKED.get(kind)
        return self._stacked(kind, [[name]], native)

    def _side_by_side(self, names: Sequence[str]) -> list[DeviceMatrix]:
        if self._native is not None:
            return [self._stacked(TYPES[self._native], [names], self._native)]
        return [self._stacked(kind, [list(alike)]) for kind, alike in groupby(names, self._kind)]

    def _kind(self, name: str, native: Format | None = None) -> str:
        """Kind in which a tensor is stored on the device."""
        if native is not None:
            return TYPES[native]
        kind = kind_of(self._weights, name) if self._stored else "F32"
        return kind if kind in FLOATS or kind in QUANTISED else "F32"

    def _common(self, names: Sequence[str]) -> str:
        kinds = set(map(self._kind, names))
        return kinds.pop() if len(kinds) == 1 else "F32"

    def _stacked(
        self, kind: str, groups: Sequence[Sequence[str]], native: Format | None = None
    ) -> DeviceMatrix:
        """All matrices of all groups, one below the other; those of a group are packed together."""
        shapes = [self._shapes[name] for name in chain(*groups)]
        rows, cols = sum(shape[0] for shape in shapes), shapes[0][1]
        matrix = DeviceMatrix.empty(kind, rows, cols, self._memory)
        first, weights = 0, self._weights
        for names in groups:
            for stretch in (
                stored_rows(weights, names, kind)
                if native is None
                else packed_rows(weights, names, native)
            ):
                matrix.fill(first, stretch, names[0])
                first += len(stretch)
        self.matrices.append(matrix)
        self.kinds.add(kind)
        return matrix

    def _vector(self, names: Sequence[str]) -> torch.Tensor:
        return self._kept(np.concatenate([self._weights.float32(name) for name in names]))

    def _kept(self, numbers: NDArray[Any]) -> torch.Tensor:
        kept = self._memory.keep(Purpose.WEIGHTS, torch.from_numpy(numbers))
        self.vectors.append(kept)
        return kept
