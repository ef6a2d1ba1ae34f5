"""A device's arithmetic: products of activations with stored weights, and of keys with queries.

Products of few rows go through kernels that read stored weights as they are, where a device has
them, and so does attention. Else the weights are widened piece by piece into fixed memory and
multiplied there.

Numbers are multiplied in fp16 and summed in fp32: of the two halves it has eight times bf16's
precision, and what it lacks in range is nowhere needed here. The residual stream, norms, rotations
and softmax stay in fp32; inputs of products are normed rows, averages of values, or scaled to 1
where they could be large. On torch's "cpu" device everything is fp32, which tests compare exactly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from engine.backend.accelerator.driver import Driver, reason_against
from engine.backend.accelerator.matrix import FLOATS, QUANTISED, DeviceMatrix, WideningScratch
from engine.backend.accelerator.sizes import (
    ALIGNED_ROWS,
    FEW_ROWS,
    PIECE,
    STRETCH,
    TILE_ROWS,
)
from engine.backend.step import CHUNK
from engine.language import tr

if TYPE_CHECKING:
    from engine.backend.accelerator.kernels.launch import StoredProducts, StretchedAttention

_log = logging.getLogger(__name__)
_LEAST_PEAK = 1e-30
_TRIED_ROWS = (TILE_ROWS, 2 * TILE_ROWS)
_WIDEST_ON_AMD = 64  # heads beyond that take more registers than there are
_FAR = 1e-2
"""Of the norm of a product: what two orders of summing never come to."""


class Products:
    """The arithmetic of a device, with its fixed memory.

    Args:
        halves: whether numbers are multiplied in fp16; None: but for torch's "cpu" device.

    Attributes:
        without_kernels: why none are used, in words; empty where they are.
    """

    def __init__(self, driver: Driver, halves: bool | None = None) -> None:
        device = driver.device
        self._amd = driver.kind == "rocm"
        self._halves = device.type not in ("cpu", "meta") if halves is None else halves
        self.compute = torch.float16 if self._halves else torch.float32
        self._scratch = WideningScratch.on(device, PIECE)
        self._numbers = torch.empty(PIECE, dtype=torch.float32, device=device)
        self._operand = self._numbers
        if self._halves:
            self._operand = torch.empty(PIECE, dtype=self.compute, device=device)
        self._sums_wide = self._halves and _sums_wide(device)
        self._stored: StoredProducts | None = None
        self._tried: set[tuple[str, int, int]] = set()
        self._attention: dict[tuple[int, int, int], StretchedAttention | None] = {}
        self.without_kernels = reason_against(driver)
        if self._halves and not self.without_kernels:
            self._stored = _stored_products(self._numbers, self._operand)

    @property
    def with_kernels(self) -> bool:
        """Tell whether products of few rows go through kernels, whose last bits are their own."""
        return self._stored is not None

    def warm(self, matrices: Iterable[DeviceMatrix]) -> None:
        """Compile kernels for these matrices, and check their results.

        Where one fails or is far from the widened product, none is used from then on.
        """
        for matrix in matrices:
            shape = matrix.kind, matrix.rows, matrix.cols
            if self._stored is None or shape in self._tried:
                continue
            self._tried.add(shape)
            if all(self._stored.takes(matrix, rows) for rows in _TRIED_ROWS):
                self.without_kernels = self._trouble(self._stored, matrix)
            if self.without_kernels:
                self._stored = None
                _log.warning("no kernels: %s", self.without_kernels)

    def _trouble(self, stored: StoredProducts, matrix: DeviceMatrix) -> str:
        """Describe what is wrong with a matrix's products; empty where nothing is."""
        device = self._numbers.device
        for rows in _TRIED_ROWS:
            x = torch.linspace(-1.0, 1.0, rows * matrix.cols, device=device).view(rows, -1)
            x = torch.frac(x * 7919.0)
            got, expected = (torch.empty(rows, matrix.rows, device=device) for _ in range(2))
            self._multiply_widened(x, matrix, expected, large=True, exact=False)
            for large in (True, False):
                try:
                    stored.multiply(x, matrix, got, large=large)
                    apart = float((got - expected).norm())
                except Exception as error:  # noqa: BLE001  # a compiler's, a linker's, a driver's
                    return tr("A kernel for {kind} cannot be started: {error}").format(
                        kind=matrix.kind, error=error
                    )
                if not apart <= _FAR * float(expected.norm()):
                    return tr("A kernel for {kind} gives wrong results on this device.").format(
                        kind=matrix.kind
                    )
        return ""

    def attention(self, heads: int, kv: int, dim: int) -> StretchedAttention | None:
        """Kernels for so many heads of queries and of keys; None where there are none that work."""
        shape = heads, kv, dim
        if self._stored is None or (self._amd and dim > _WIDEST_ON_AMD):
            return None
        if shape not in self._attention:
            made = _attention(self._numbers.device, *shape)
            trouble = self._trouble_attending(made, *shape)
            if trouble:
                _log.warning("no kernels for attention: %s", trouble)
            self._attention[shape] = None if trouble else made
        return self._attention[shape]

    def _trouble_attending(self, made: StretchedAttention, heads: int, kv: int, dim: int) -> str:
        """Describe what is wrong with attention over five chunks; empty where nothing is."""
        device, chunks = self._numbers.device, STRETCH + 1

        def numbers(*shape: int) -> torch.Tensor:
            line = torch.linspace(-1.0, 1.0, torch.Size(shape).numel(), device=device)
            return torch.frac(line.view(shape) * 7919.0)

        q, keys, values = (
            numbers(TILE_ROWS, heads, dim),
            *(numbers(chunks, kv, CHUNK, dim).roll(turn, 0).half() for turn in (1, 2)),
        )
        mask = torch.zeros(chunks, TILE_ROWS, CHUNK, device=device)
        mask[-1, :, CHUNK // 2 :] = -torch.inf
        got = torch.empty(TILE_ROWS, heads * dim, device=device)
        grouped = q.view(TILE_ROWS, kv, heads // kv, dim)
        scores = torch.einsum("rkgd,ckpd->kgrcp", grouped, keys.float())
        scores = scores.add_(mask.transpose(0, 1)).flatten(3).softmax(dim=3)
        flat = values.float().transpose(0, 1).reshape(kv, chunks * CHUNK, dim)
        expected = torch.einsum("kgrs,ksd->rkgd", scores, flat).reshape(TILE_ROWS, -1)
        try:
            made.attend(q, (keys, values), mask, None, (1.0, 0.0, None), got)
            apart = float((got - expected).norm())
        except Exception as error:  # noqa: BLE001  # a compiler's, a linker's, a driver's
            return str(error)
        return "" if apart <= _FAR * float(expected.norm()) else "wrong results"

    def multiply(
        self,
        x: torch.Tensor,
        matrix: DeviceMatrix,
        out: torch.Tensor,
        *,
        large: bool = False,
        exact: bool = False,
    ) -> None:
        """out [n, rows] = x [n, cols] times the matrix's rows, both fp32; n is a multiple of 16.

        `large`: x may hold numbers beyond fp16's. `exact`: in fp32 throughout.
        """
        if not exact:
            self.warm((matrix,))
        stored = None if exact else self._stored
        if stored is not None and stored.takes(matrix, len(x)):
            stored.multiply(x, matrix, out, large=large)
        elif stored is not None and matrix.blocked and stored.widens(matrix, len(x)):
            self._multiply_many(stored, x, matrix, out, large=large)
        else:
            self._multiply_widened(x, matrix, out, large=large, exact=exact)

    def _multiply_many(
        self,
        stored: StoredProducts,
        x: torch.Tensor,
        matrix: DeviceMatrix,
        out: torch.Tensor,
        *,
        large: bool,
    ) -> None:
        """Multiply more rows: one launch widens a piece, and a library multiplies it."""
        ready, peaks = stored.ready(x, matrix, large=large)
        for first, count in _pieces(matrix, torch.float16, ready.shape[1]):
            weights = stored.widened(matrix.part(first, count)).t()
            self._product(ready, weights, out[:, first : first + count])
        if large:
            out.mul_(peaks.unsqueeze(1))

    def _multiply_widened(
        self, x: torch.Tensor, matrix: DeviceMatrix, out: torch.Tensor, *, large: bool, exact: bool
    ) -> None:
        number = torch.float32 if exact or matrix.kind == "F32" else self.compute
        peak = None
        if large and number != torch.float32:
            peak = x.abs().amax(dim=1, keepdim=True).clamp_(min=_LEAST_PEAK)
            x = x / peak
        x = x.to(number)
        tile = self._tile(len(x))
        for first, count in _pieces(matrix, number):
            weights = self._widened(matrix.part(first, count), number).t()
            for start in range(0, len(x), tile):
                rows = slice(start, start + tile)
                self._product(x[rows], weights, out[rows, first : first + count])
        if peak is not None:
            out.mul_(peak)

    def look_up(self, matrix: DeviceMatrix, index: torch.Tensor, out: torch.Tensor) -> None:
        """out fp32 [n, cols] = rows of a matrix."""
        step = max(PIECE // matrix.width, 1)
        for start in range(0, len(index), step):
            picked = matrix.picked(index[start : start + step])
            out[start : start + step] = self._numbers_of(picked)

    def for_keys(self, rows: torch.Tensor) -> torch.Tensor:
        """Convert queries, or shares of values, to the type that `with_keys` takes."""
        return rows.to(self.compute) if self._sums_wide else rows

    def with_keys(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Multiply [b, m, k] by keys or values [b, k, n]: fp32 [b, m, n]."""
        if self._sums_wide:
            return torch.bmm(left, right.to(self.compute), out_dtype=torch.float32)
        return torch.bmm(left, right.float())

    def _tile(self, rows: int) -> int:
        return rows if self._halves and rows > FEW_ROWS else TILE_ROWS

    def _widened(self, matrix: DeviceMatrix, number: torch.dtype) -> torch.Tensor:
        """The matrix as `number` [rows, cols]: where it lies, or in the fixed memory."""
        numbers = self._numbers_of(matrix) if matrix.blocked else matrix.planes[0]
        if numbers.dtype == number:
            return numbers
        room = self._numbers if number == torch.float32 else self._operand
        return room[: matrix.rows * matrix.cols].view(matrix.rows, -1).copy_(numbers)

    def _numbers_of(self, matrix: DeviceMatrix) -> torch.Tensor:
        """The matrix in fp32 [rows, cols]."""
        if not matrix.blocked:
            return matrix.planes[0].float()
        form = QUANTISED[matrix.kind]
        numbers = self._numbers[: matrix.rows * matrix.width].view(matrix.rows, -1, form.numbers)
        form.widen(matrix.planes, numbers, self._scratch)
        return numbers.view(matrix.rows, -1)[:, : matrix.cols]

    def _product(self, x: torch.Tensor, weights: torch.Tensor, out: torch.Tensor) -> None:
        if x.dtype == torch.float32:
            torch.mm(x, weights, out=out)
        elif self._sums_wide:
            out.copy_(torch.mm(x, weights, out_dtype=torch.float32))
        else:
            out.copy_(x @ weights)


def _stored_products(sums: torch.Tensor, ready: torch.Tensor) -> StoredProducts:
    from engine.backend.accelerator.kernels.launch import StoredProducts  # imports Triton

    return StoredProducts(sums, ready)


def _attention(device: torch.device, heads: int, kv: int, dim: int) -> StretchedAttention:
    from engine.backend.accelerator.kernels.launch import StretchedAttention  # imports Triton

    return StretchedAttention(device, heads, kv, dim)


def _pieces(
    matrix: DeviceMatrix, number: torch.dtype, width: int | None = None
) -> Iterator[tuple[int, int]]:
    """First row and number of rows; the whole matrix where nothing is to be widened.

    `width`: numbers of a widened row; None: as many as it has.
    """
    step = max(PIECE // (width or matrix.width), 1)
    if FLOATS.get(matrix.kind) == number:
        step = matrix.rows
    elif step >= ALIGNED_ROWS:
        step -= step % ALIGNED_ROWS
    for first in range(0, matrix.rows, step):
        yield first, min(step, matrix.rows - first)


def _sums_wide(device: torch.device) -> bool:
    """Tell whether torch gives fp32 results of fp16 products; else they are rounded once more."""
    tile = torch.ones(TILE_ROWS, TILE_ROWS, dtype=torch.float16, device=device)
    try:
        plain = torch.mm(tile, tile, out_dtype=torch.float32)
        batch = torch.bmm(tile[None], tile[None], out_dtype=torch.float32)
    except (TypeError, RuntimeError, NotImplementedError):
        return False
    return bool(plain.dtype == batch.dtype == torch.float32)


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
