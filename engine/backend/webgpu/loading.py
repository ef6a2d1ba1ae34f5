"""Loading a model's files onto a device: matrices as stored, or packed as on the CPU."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping, Sequence
from itertools import groupby

import numpy as np

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.ledger import Account, Purpose
from engine.backend.native.library import Format
from engine.backend.native.stretches import PACKED, TYPES, kind_of, packed_rows, stored_rows
from engine.backend.shared import Loan
from engine.backend.webgpu.formats import FORMATS
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.matrix import GpuMatrix, upload
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Weights


class HeldVectors:
    """Lives as long as vectors on a device are in use; their entries in the ledger go with it."""


class GpuLoader:
    """Brings what a segment needs of a model's weights to a device.

    Args:
        config: of the model.
        weights: of the model.
        fmt: of all matrices; STORED leaves every matrix as it is.
        gpu: the device.
        account: where they are entered.
        alone: where matrices are noted that other segments share.
        loan: of a head, those of its target.

    Attributes:
        matrices: everything that was brought, for counting.
        kinds: the types of everything that is computed with.
        vector_bytes: of all vectors.
        held: keeps the vectors' entries in the ledger.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        fmt: WeightFormat,
        gpu: Gpu,
        account: Account,
        alone: MutableMapping[Hashable, GpuMatrix],
        loan: Loan,
    ) -> None:
        self._weights, self._gpu, self._account = weights, gpu, account
        self._shapes = expected_tensors(config)
        self._native = NATIVE_FORMATS.get(fmt)
        self._stored = fmt is WeightFormat.STORED
        self._alone, self._loan = alone, loan
        self.matrices: list[GpuMatrix] = []
        self.kinds: set[str] = set()
        self.vector_bytes = 0
        self.held = HeldVectors()

    def vector(self, *names: str) -> Buffer:
        """Load norms' weights, biases or sinks, side by side, in fp32."""
        numbers = np.concatenate([self._weights.float32(name).reshape(-1) for name in names])
        self._account.take(Purpose.WEIGHTS, numbers.nbytes).lasts_as_long_as(self.held)
        self.vector_bytes += numbers.nbytes
        buffer = self._gpu.buffer(numbers.nbytes)
        self._gpu.write(buffer, 0, numbers)
        return buffer

    def side_by_side(self, names: Sequence[str]) -> list[GpuMatrix]:
        """Load matrices with one input; those of one kind that are neighbours are one matrix."""
        alike = groupby(names, self._kind_here)
        return [self._stacked(kind, list(every), self._native) for kind, every in alike]

    def of_experts(self, layers: Sequence[str], count: int) -> list[GpuMatrix]:
        """Load some layers of all experts, "{}" in their names, one expert below the other.

        As `side_by_side` does, by the kinds of the first expert.
        """
        found = []
        for kind, alike in groupby(layers, lambda layer: self._kind_here(layer.format(0))):
            every = list(alike)
            names = [layer.format(expert) for expert in range(count) for layer in every]
            if any(self._kind_here(name) != kind for name in names):
                raise NotPossible(
                    tr("The experts of this model are stored in different formats."),
                    tr("Run the model on the CPU."),
                )
            found.append(self._stacked(kind, names, self._native))
        return found

    def unquantised(self, names: Sequence[str]) -> list[GpuMatrix]:
        """Load matrices that are never quantised here, as `side_by_side` does.

        Such as a router: small, its choices all or nothing.
        """

        def stored(name: str) -> str:
            kind = kind_of(self._weights, name)
            return kind if kind in FORMATS else "F32"

        return [self._stacked(kind, list(every), None) for kind, every in groupby(names, stored)]

    def matrix(self, name: str) -> GpuMatrix:
        """Load one matrix by itself: the embedding, the head; a target's own where it lies here."""
        lent = self._loan.lent.get(name)
        found = self._alone.get(name) if lent is None else self._loan.find(GpuMatrix, name)
        if found is not None:
            self.kinds.add(found.kind)
            return found
        if lent is None:
            found = self._alone[name] = self._stacked(self._kind_here(name), [name], self._native)
            return found
        kind = lent.kind if lent.kind in FORMATS else "F32"
        native = self._native
        if kind_of(self._weights, name) != kind:
            native = PACKED.get(kind, native)
        return self._stacked(kind, [name], native)

    def _kind_here(self, name: str) -> str:
        """Kind in which a tensor is held on the device."""
        if self._native is not None:
            return TYPES[self._native]
        kind = kind_of(self._weights, name) if self._stored else "F32"
        return kind if kind in FORMATS else "F32"

    def _stacked(self, kind: str, names: Sequence[str], native: Format | None) -> GpuMatrix:
        shapes = [self._shapes[name] for name in names]
        shape = sum(rows for rows, _ in shapes), shapes[0][1]
        weights = self._weights
        if native is None:
            stretches = stored_rows(weights, names, kind)
        else:
            stretches = packed_rows(weights, names, native)
        matrix = upload(self._gpu, self._account, kind, shape, stretches, names[0])
        self.matrices.append(matrix)
        self.kinds.add(kind)
        return matrix
