"""Starts the kernels of products and attention; the host waits for nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from engine.backend.accelerator.kernels import attend, multiply
from engine.backend.accelerator.kernels.shapes import CUTS, order
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.sizes import (
    ALIGNED_ROWS,
    FEW_ROWS,
    STRETCH,
    TILE_ROWS,
    stretches,
    tiles_at_once,
)
from engine.backend.step import CHUNK

_MAGIC = 0x64006400
"""1024 in each half of a word: a code in its mantissa is added."""
_ADDED_AT_ONCE = 256
_MADE_AT_ONCE = 1024
_MOST_AT_ONCE = 16384
_ALIGNED = 16
_MOST_ATTENDING = 8192
"""Numbers of a program's sums, so that registers hold them."""
_KERNELS: dict[str, tuple[Any, Any]] = {
    "Q4_0": (multiply.q4_0_raw, multiply.q4_0_part),
    "Q8_0": (multiply.q8_0_raw, multiply.q8_0_part),
    "Q4_K": (multiply.q4_k_raw, multiply.q4_k_part),
    "Q5_K": (multiply.q5_k_raw, multiply.q5_k_part),
    "Q6_K": (multiply.q6_k_raw, multiply.q6_k_part),
    "F16": (multiply.half_raw, multiply.half_part),
    "BF16": (multiply.half_raw, multiply.half_part),
}


def _wider() -> int:
    """How many times as many warps AMD's programs take: theirs hold fewer registers."""
    return 2 if torch.version.hip else 1


def _here(device: torch.device) -> AbstractContextManager[object]:
    """Triton starts kernels on the current device."""
    modules: dict[str, Any] = {"cuda": torch.cuda, "xpu": torch.xpu}
    module = modules.get(device.type)
    return nullcontext() if module is None else module.device(device)


class StoredProducts:
    """Products of up to 64 rows with stored weights, which kernels read as they are.

    What a row gives depends on the row and the matrix alone.

    Args:
        sums: fixed memory, fp32 of at least `sizes.PIECE` numbers.
        ready: fixed memory for activations, fp16 of as many.
    """

    def __init__(self, sums: torch.Tensor, ready: torch.Tensor) -> None:
        self._sums, self._ready = sums, ready
        device = sums.device
        self._peaks = torch.empty(FEW_ROWS, dtype=torch.float32, device=device)
        self._here = _here(device)
        self._orders = {kind: torch.from_numpy(order(kind)).to(device) for kind in CUTS}

    def takes(self, matrix: DeviceMatrix, rows: int) -> bool:
        """Tell whether there is a kernel for the product of `matrix` with so many rows."""
        cut = CUTS.get(matrix.kind)
        if cut is None or rows > FEW_ROWS or rows % TILE_ROWS:
            return False
        if rows * cut.steps(matrix.width) * cut.numbers > self._ready.numel():
            return False
        return self._reads(matrix)

    def widens(self, matrix: DeviceMatrix, rows: int) -> bool:
        """Tell whether a kernel widens `matrix` for a product with so many rows."""
        cut = CUTS.get(matrix.kind)
        if cut is None or rows <= FEW_ROWS:
            return False
        fits = cut.steps(matrix.width) * cut.numbers * ALIGNED_ROWS <= self._ready.numel()
        return fits and self._reads(matrix)

    def _reads(self, matrix: DeviceMatrix) -> bool:
        # Words and the copies ahead of the arithmetic are read at multiples of their size.
        if matrix.kind == "Q6_K" and matrix.planes[-1].numel() % 2:
            return False
        if not matrix.blocked and matrix.cols * 2 % _ALIGNED:
            return False
        return all(
            plane.is_contiguous() and plane.data_ptr() % _ALIGNED == 0 for plane in matrix.planes
        )

    def ready(
        self, x: torch.Tensor, matrix: DeviceMatrix, *, large: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return any number of rows as products with `widened` take them, fp16, and their peaks."""
        cut = CUTS[matrix.kind]
        room = torch.empty(
            len(x), cut.steps(matrix.width) * cut.numbers, dtype=torch.float16, device=x.device
        )
        peaks = torch.empty(len(x), dtype=torch.float32, device=x.device)
        with self._here:
            self._make_ready(x, matrix.kind, room, peaks, large=large)
        return room, peaks

    def widened(self, matrix: DeviceMatrix) -> torch.Tensor:
        """Return a matrix in fixed memory, fp16 [rows, width], in the order of `ready`."""
        cut, (raw, part) = CUTS[matrix.kind], _KERNELS[matrix.kind]
        steps = cut.steps(matrix.width)
        out = self._ready[: matrix.rows * steps * cut.numbers].view(matrix.rows, -1)
        with self._here:
            multiply.widen[(-(-matrix.rows // cut.rows), steps)](
                *_planes(matrix),
                out,
                matrix.rows,
                matrix.planes[0].shape[1],
                steps,
                _MAGIC,
                RAW=raw,
                PART=part,
                PARTS=cut.parts,
                ROWS=cut.rows,
                EVEN=out.shape[1] == matrix.width,
                num_warps=cut.warps * _wider(),
            )
        return out

    def multiply(
        self, x: torch.Tensor, matrix: DeviceMatrix, out: torch.Tensor, *, large: bool
    ) -> None:
        """See `Products.multiply`, for what `takes` allows."""
        with self._here:
            self._start(x, matrix, out, large=large)

    def _start(
        self, x: torch.Tensor, matrix: DeviceMatrix, out: torch.Tensor, *, large: bool
    ) -> None:
        cut, (raw, part) = CUTS[matrix.kind], _KERNELS[matrix.kind]
        count, rows, steps = len(x), matrix.rows, cut.steps(matrix.width)
        width = steps * cut.numbers
        room = self._ready[: count * width].view(count, width)
        self._make_ready(x, matrix.kind, room, self._peaks, large=large)
        each, splits = cut.split(rows, matrix.width)
        pair = count % (2 * TILE_ROWS) == 0
        tiles_of_rows = count // (2 * TILE_ROWS if pair else TILE_ROWS)
        multiply.sum_stretches[(-(-rows // cut.rows), splits, tiles_of_rows)](
            *_planes(matrix),
            self._ready,
            out if splits == 1 else self._sums,
            self._peaks,
            rows,
            matrix.planes[0].shape[1],
            steps,
            each,
            out.stride(0),
            _MAGIC,
            RAW=raw,
            PART=part,
            PARTS=cut.parts,
            ROWS=cut.rows,
            EVEN=width == matrix.width,
            PAIR=pair,
            WHOLE=splits == 1,
            STAGES=cut.stages,
            num_warps=cut.warps
            * (2 if torch.version.hip else 1),  # of 32 lanes, and fewer registers
            num_stages=cut.stages,
        )
        if splits > 1:
            multiply.add_stretches[(-(-rows // _ADDED_AT_ONCE), count)](
                self._sums,
                out,
                self._peaks,
                rows,
                out.stride(0),
                SPLITS=splits,
                BLOCK=_ADDED_AT_ONCE,
                num_warps=4,
            )

    def _make_ready(
        self, x: torch.Tensor, kind: str, room: torch.Tensor, peaks: torch.Tensor, *, large: bool
    ) -> None:
        x = x if x.stride(1) == 1 else x.contiguous()
        count, cols = x.shape
        width = room.shape[1]
        block = min(_power(cols), _MOST_AT_ONCE) if large else _MADE_AT_ONCE
        multiply.make_ready[(count, 1 if large else -(-width // block))](
            x,
            self._orders[kind],
            room,
            peaks,
            cols,
            x.stride(0),
            width,
            NUMBERS=CUTS[kind].numbers,
            LARGE=large,
            BLOCK=block,
            num_warps=8 if large else 4,
        )


def _planes(matrix: DeviceMatrix) -> tuple[torch.Tensor, ...]:
    """Codes, upper bits, packed scales and scales, as the kernels read them."""
    planes = matrix.planes
    if not matrix.blocked:
        return (planes[0],) * 4
    if matrix.kind in ("Q4_0", "Q8_0"):
        codes = _words(planes[1])
        return codes, codes, codes, planes[0]
    if matrix.kind == "Q6_K":
        low, high, packed, scales = map(_words, planes)
        return low, high, packed, scales
    words = [_words(plane) for plane in planes]
    return words[-1], words[-2], words[1], words[0]


def _words(plane: torch.Tensor) -> torch.Tensor:
    return plane.view(-1).view(torch.int32)


Manner = tuple[float, float, torch.Tensor | None]
"""Scale of queries, cap of scores (0: none), sinks fp32 [kv, 1, group] that may take part."""


class StretchedAttention:
    """Attention of any number of rows over keys and values where they lie.

    Args:
        heads: of queries.
        kv: of keys; each serves as many heads of queries.
        dim: numbers of a head.
    """

    def __init__(self, device: torch.device, heads: int, kv: int, dim: int) -> None:
        self._here, self._heads, self._kv, self._dim = _here(device), heads, kv, dim

    def attend(
        self,
        q: torch.Tensor,
        kept: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        tails: torch.Tensor | None,
        manner: Manner,
        out: torch.Tensor,
    ) -> None:
        """out fp32 [n, heads * dim] = what queries [n, heads, dim] find.

        Args:
            q: fp32, n a multiple of 16.
            kept: a block's keys and values, fp16 [chunks, kv, CHUNK, dim].
            mask, tails: see `AttentionMetadata`.
            manner: how scores are made.
            out: of fixed order: a row's numbers depend on its own path alone.
        """
        count = len(q)
        tail = 0 if tails is None else tails.shape[1] // (self._kv * CHUNK)
        parts = stretches(len(mask) - tail) + tail
        step = tiles_at_once(parts, self._heads, self._dim) * TILE_ROWS
        with self._here:
            for first in range(0, count, step):
                some = slice(first, first + step)
                own = None if tails is None else tails[some]
                self._start(q[some], kept, mask[:, some], own, manner, out[some], tail, parts)

    def _start(
        self,
        q: torch.Tensor,
        kept: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        tails: torch.Tensor | None,
        manner: Manner,
        out: torch.Tensor,
        tail: int,
        parts: int,
    ) -> None:
        count, heads, dim = len(q), self._heads, self._dim
        group, dims = heads // self._kv, max(_power(dim), 16)
        scale, cap, sinks = manner
        sums = torch.empty(parts, count, heads, dim, dtype=torch.float32, device=q.device)
        ends = torch.empty(2, parts, count, heads, dtype=torch.float32, device=q.device)
        places = sums, ends[0], ends[1]
        chunks, numbers = len(mask) - tail, (q.stride(0), count, mask.stride(0))
        tile = TILE_ROWS
        while tile > 1 and _power(tile * group) * dims > _MOST_ATTENDING // _wider():
            tile //= 2
        rows = max(_power(tile * group), TILE_ROWS)
        attend.attend_stretches[(count // tile, self._kv, parts - tail)](
            q,
            *kept,
            mask,
            *places,
            *numbers,
            chunks,
            scale,
            cap,
            TILE=tile,
            GROUP=group,
            ROWS=rows,
            DIM=dim,
            DIMS=dims,
            EACH=STRETCH,
            CAPPED=cap != 0,
            num_warps=4 * _wider(),
            num_stages=2,
        )
        if tails is not None:
            attend.attend_tails[(count, self._kv, tail)](
                q,
                *kept,
                tails,
                mask,
                *places,
                *numbers,
                chunks,
                parts - tail,
                scale,
                cap,
                GROUP=group,
                ROWS=max(_power(group), TILE_ROWS),
                DIM=dim,
                DIMS=dims,
                CAPPED=cap != 0,
                num_warps=8,  # its places are 64 bits wide: four would spill
                num_stages=1,
            )
        attend.combine[(count, heads)](
            *places,
            q if sinks is None else sinks,
            out,
            parts,
            SINKS=sinks is not None,
            DIM=dim,
            DIMS=dims,
            num_warps=1,
        )


def _power(count: int) -> int:
    """Return the first power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()
