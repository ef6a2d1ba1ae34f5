"""Products with stored matrices and a bias."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.products import Products


class StoredLinear:
    """Stored matrices side by side: fp32 rows [n, inner] -> [n, sum of their rows]."""

    __slots__ = ("_bias", "_parts", "_products", "_width")

    def __init__(
        self, products: Products, parts: Sequence[DeviceMatrix], bias: torch.Tensor | None
    ) -> None:
        self._products, self._parts, self._bias = products, tuple(parts), bias
        self._width = sum(part.rows for part in parts)

    def __call__(
        self, x: torch.Tensor, *, large: bool = False, exact: bool = False
    ) -> torch.Tensor:
        """The product with the bias added; see `Products.multiply`."""
        y = torch.empty(len(x), self._width, dtype=torch.float32, device=x.device)
        start = 0
        for part in self._parts:
            place = y[:, start : start + part.rows]
            self._products.multiply(x, part, place, large=large, exact=exact)
            start += part.rows
        return y if self._bias is None else y.add_(self._bias)


class ExpertLinear:
    """A stack of such matrices, one set per expert, that an index on the device chooses from.

    Args:
        count: experts; each part holds their matrices one below the other.
        bias: [count, outer].
    """

    __slots__ = ("_bias", "_count", "_parts", "_products")

    def __init__(
        self,
        products: Products,
        parts: Sequence[DeviceMatrix],
        bias: torch.Tensor | None,
        count: int,
    ) -> None:
        self._products, self._parts, self._bias, self._count = products, parts, bias, count

    def numbered(self, expert: int) -> StoredLinear:
        """One expert's matrices, in place."""
        heights = [part.rows // self._count for part in self._parts]
        parts = [
            part.part(expert * height, height)
            for part, height in zip(self._parts, heights, strict=True)
        ]
        bias = None if self._bias is None else self._bias[expert]
        return StoredLinear(self._products, parts, bias)

    def chosen(self, expert: torch.Tensor) -> StoredLinear:
        """The expert that an int tensor [1] names: copied, so that the host need not know."""
        parts = [part.expert(expert, part.rows // self._count) for part in self._parts]
        bias = None if self._bias is None else self._bias.index_select(0, expert)[0]
        return StoredLinear(self._products, parts, bias)
