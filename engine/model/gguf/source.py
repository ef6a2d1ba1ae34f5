"""GGUF files as a source of weights: blocks as they are stored, or widened to floats."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.model.gguf.file import GgufFile
from engine.model.weights.source import FLOATS, VIEWS, TensorSource, read_rows, widened

_SMALL = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "IQ4_NL", "IQ4_XS")
_K = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0")
_I = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")
WIDENED = frozenset((*_SMALL, *_K, *_I))
"""What the gguf package turns into floats."""


class GgufSource(TensorSource):
    """The tensors of a model in GGUF, by their stored names.

    Kinds in `native` are handed on in ggml's blocks, uint8 [rows, bytes per row]; others that are
    no floats are widened some rows at a time. Without `native` they become float32, exactly; beside
    native blocks, where memory counts, float16.
    """

    __slots__ = ("_native", "_wide")

    def __init__(self, file: GgufFile, native: Collection[str] = ()) -> None:
        super().__init__(file.tensors)
        self._native = frozenset(native)
        self._wide = "F16" if native else "F32"

    def kind(self, name: str) -> str:
        """What `stretches` gives: the stored kind, or that of floats where it is widened."""
        kind = super().kind(name)
        return self._wide if self._is_widened(kind) else kind

    def stretches(
        self, name: str, first: int = 0, count: int | None = None
    ) -> Iterator[NDArray[Any]]:
        """Rows from `first` on; see `TensorSource.stretches`, and `kind` for their type."""
        tensor = self._tensors[name]
        if not self._is_widened(tensor.kind):
            yield from super().stretches(name, first, count)
            return
        self.check_readable(name)
        dtype = VIEWS[self._wide]
        for raw in read_rows(tensor, first, count, tensor.columns * np.dtype(np.float32).itemsize):
            with np.errstate(over="ignore"):  # packing tells what is no number
                part = widened(raw, tensor.kind).astype(dtype, copy=False)
            yield part

    def _is_widened(self, kind: str) -> bool:
        return kind in WIDENED and kind not in self._native

    def _is_readable(self, kind: str) -> bool:
        return kind in FLOATS or kind in WIDENED
