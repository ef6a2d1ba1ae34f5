"""Matrices on a device, in the file's own numbers and at about its size, and their widening.

A format's blocks hold the same bits as in ggml's files, part by part: all codes of a matrix in one
tensor, all scales in another. Widening gives the numbers that ggml's definition gives, bit for bit
in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.ledger import Purpose
from engine.model.weights.block_parts import split_blocks
from engine.model.weights.readable import Stretch
from engine.model.weights.stored import not_finite

Planes = Sequence[torch.Tensor]
"""Parts of some rows, uint8 [rows, blocks, bytes of the part], or fp16 [rows, blocks, scales]."""

_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_MXFP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@dataclass(frozen=True, slots=True)
class WideningScratch:
    """Fixed memory for widening, and small constants; every row of blocks uses its beginning.

    Attributes:
        codes, bits: uint8, as many as there are numbers in a piece.
        places: int32 of the same number, for formats that look their numbers up.
        shifts: 0..7 as uint8.
        iq4, mxfp4: fp32 [16], the numbers that these formats' codes stand for.
        powers: fp32 [256], half of the powers of two that MXFP4's scales stand for.
    """

    codes: torch.Tensor
    bits: torch.Tensor
    places: torch.Tensor
    shifts: torch.Tensor
    iq4: torch.Tensor
    mxfp4: torch.Tensor
    powers: torch.Tensor

    @classmethod
    def on(cls, device: torch.device, numbers: int) -> WideningScratch:
        """Room for pieces of so many numbers."""
        exponents = np.arange(256, dtype=np.uint32)
        small = np.uint32(0x00200000) << np.minimum(exponents, 1)
        powers = np.where(exponents < 2, small, np.maximum(exponents, 1) - 1 << np.uint32(23))
        return cls(
            codes=torch.empty(numbers, dtype=torch.uint8, device=device),
            bits=torch.empty(numbers, dtype=torch.uint8, device=device),
            places=torch.empty(numbers, dtype=torch.int32, device=device),
            shifts=torch.arange(8, dtype=torch.uint8).to(device),
            iq4=torch.tensor(_IQ4, dtype=torch.float32).to(device),
            mxfp4=torch.tensor(_MXFP4, dtype=torch.float32).to(device),
            powers=torch.from_numpy(powers.astype(np.uint32).view(np.float32)).to(device),
        )


Widen = Callable[[Planes, torch.Tensor, WideningScratch], None]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A kind of stored rows.

    Attributes:
        kind: ggml's name.
        numbers: numbers of a block.
        parts: bytes of the block's parts in their order; negative ones are of fp16 scales.
        widen: planes of some rows -> fp32 [rows, blocks, numbers].
    """

    kind: str
    numbers: int
    parts: tuple[int, ...]
    widen: Widen

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return sum(map(abs, self.parts))

    def split(self, rows: NDArray[np.uint8]) -> list[torch.Tensor]:
        """Rows as they are stored, [rows, bytes of a row], by part, in the host's memory."""
        pieces = split_blocks(rows, [abs(part) for part in self.parts])
        return [
            torch.from_numpy(piece.view(np.float16) if part < 0 else piece)
            for part, piece in zip(self.parts, pieces, strict=True)
        ]


_F16 = -2
_PAIR = -4  # a scale and a minimum: kernels read both at once


def _room(buffer: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The beginning of a buffer, in the shape of the numbers to come."""
    return buffer[: out.numel()].view(out.shape)


def _spread(
    packed: torch.Tensor, groups: int, bits: int, out: torch.Tensor, scratch: WideningScratch
) -> torch.Tensor:
    """Codes of so many bits that lie in bytes, [rows, blocks, bytes] -> [rows, blocks, numbers].

    In each group of bytes all lowest codes come first, then all second ones.
    """
    rows, blocks, nbytes = packed.shape
    codes = out.view(rows, blocks, groups, 8 // bits, nbytes // groups)
    source = packed.view(rows, blocks, groups, 1, nbytes // groups)
    torch.bitwise_right_shift(source, scratch.shifts[::bits].view(-1, 1), out=codes)
    if bits < 8:
        codes.bitwise_and_((1 << bits) - 1)
    return out


def _codes(
    low: torch.Tensor,
    groups: int,
    bits: int,
    out: torch.Tensor,
    scratch: WideningScratch,
    high: tuple[torch.Tensor, int, int] | None = None,
) -> torch.Tensor:
    """Codes in their scratch, with the upper bits of `high` (bytes, groups, bits) above them."""
    codes = _spread(low, groups, bits, _room(scratch.codes, out), scratch)
    if high is not None:
        packed, high_groups, high_bits = high
        upper = _spread(packed, high_groups, high_bits, _room(scratch.bits, out), scratch)
        codes.bitwise_or_(upper.bitwise_left_shift_(bits))
    return codes


def _scaled(codes: torch.Tensor, offset: float, scales: torch.Tensor, out: torch.Tensor) -> None:
    """out = (codes - offset) * scales, with scales [rows, blocks, parts of a block]."""
    torch.sub(codes, offset, out=out)
    _apart(out, scales).mul_(scales.unsqueeze(-1))


def _affine(
    codes: torch.Tensor, scales: torch.Tensor, less: torch.Tensor, out: torch.Tensor
) -> None:
    """out = codes * scales - less, both [rows, blocks, parts of a block]."""
    whole = _apart(out, scales)
    torch.mul(_apart(codes, scales), scales.unsqueeze(-1), out=whole)
    whole.sub_(less.unsqueeze(-1))


def _apart(numbers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    rows, blocks, parts = scales.shape
    return numbers.view(rows, blocks, parts, -1)


def _look_up(
    codes: torch.Tensor, table: torch.Tensor, out: torch.Tensor, scratch: WideningScratch
) -> None:
    places = scratch.places[: out.numel()]
    places.copy_(codes.reshape(-1))
    torch.index_select(table, 0, places, out=out.view(-1))


def _q4_0(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, low = planes
    _scaled(_codes(low, 1, 4, out, scratch), 8.0, scale.float(), out)


def _q4_1(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, least, low = planes
    _affine(_codes(low, 1, 4, out, scratch), scale.float(), -least.float(), out)


def _q5_0(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, high, low = planes
    _scaled(_codes(low, 1, 4, out, scratch, (high, 4, 1)), 16.0, scale.float(), out)


def _q5_1(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, least, high, low = planes
    codes = _codes(low, 1, 4, out, scratch, (high, 4, 1))
    _affine(codes, scale.float(), -least.float(), out)


def _q8_0(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    del scratch
    scale, whole = planes
    torch.mul(whole.view(torch.int8), scale.float(), out=out)


def _q2_k(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    both, low, scale, least = planes
    scales, less = scale.float() * (both & 15), least.float() * (both >> 4)
    _affine(_codes(low, 2, 2, out, scratch), scales, less, out)


def _q3_k(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    high, low, packed, scale = planes
    nibbles = torch.cat((packed[..., :8] & 15, packed[..., :8] >> 4), dim=2)
    pairs = torch.cat([packed[..., 8:] >> shift & 3 for shift in (0, 2, 4, 6)], dim=2)
    scales = scale.float() * ((nibbles | pairs << 4).float() - 32.0)
    _scaled(_codes(low, 2, 2, out, scratch, (high, 1, 1)), 4.0, scales, out)


def _k_scales(both: torch.Tensor, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The eight scales and minima of 6 bits each that Q4_K and Q5_K keep in 12 bytes, scaled."""
    first, second, upper = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = torch.cat((first & 63, upper & 15 | first >> 2 & 48), dim=2)
    least = torch.cat((second & 63, upper >> 4 | second >> 2 & 48), dim=2)
    scale = both.float()
    return scale[..., :1] * scales, scale[..., 1:] * least


def _q4_k(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    both, packed, low = planes
    scales, less = _k_scales(both, packed)
    _affine(_codes(low, 4, 4, out, scratch), scales, less, out)


def _q5_k(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    both, packed, high, low = planes
    scales, less = _k_scales(both, packed)
    _affine(_codes(low, 4, 4, out, scratch, (high, 1, 1)), scales, less, out)


def _q6_k(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    low, high, scales, scale = planes
    codes = _codes(low, 2, 4, out, scratch, (high, 2, 2))
    _scaled(codes, 32.0, scale.float() * scales.view(torch.int8), out)


def _iq4_nl(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, low = planes
    _look_up(_codes(low, 1, 4, out, scratch), scratch.iq4, out, scratch)
    out.mul_(scale.float())


def _iq4_xs(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    scale, high, low, codes = planes
    nibbles = torch.stack((low & 15, low >> 4), dim=3).flatten(2)
    pairs = torch.stack([high >> shift & 3 for shift in (0, 2, 4, 6)], dim=3).flatten(2)
    scales = scale.float() * ((nibbles | pairs << 4).float() - 32.0)
    _look_up(_codes(codes, 8, 4, out, scratch), scratch.iq4, out, scratch)
    _apart(out, scales).mul_(scales.unsqueeze(-1))


def _mxfp4(planes: Planes, out: torch.Tensor, scratch: WideningScratch) -> None:
    exponent, low = planes
    _look_up(_codes(low, 1, 4, out, scratch), scratch.mxfp4, out, scratch)
    out.mul_(scratch.powers.index_select(0, exponent.reshape(-1).int()).view(exponent.shape))


QUANTISED = {
    form.kind: form
    for form in (
        StoredRows("Q4_0", 32, (_F16, 16), _q4_0),
        StoredRows("Q4_1", 32, (_F16, _F16, 16), _q4_1),
        StoredRows("Q5_0", 32, (_F16, 4, 16), _q5_0),
        StoredRows("Q5_1", 32, (_F16, _F16, 4, 16), _q5_1),
        StoredRows("Q8_0", 32, (_F16, 32), _q8_0),
        StoredRows("Q2_K", 256, (16, 64, _F16, _F16), _q2_k),
        StoredRows("Q3_K", 256, (32, 64, 12, _F16), _q3_k),
        StoredRows("Q4_K", 256, (_PAIR, 12, 128), _q4_k),
        StoredRows("Q5_K", 256, (_PAIR, 12, 32, 128), _q5_k),
        StoredRows("Q6_K", 256, (128, 64, 16, _F16), _q6_k),
        StoredRows("IQ4_NL", 32, (_F16, 16), _iq4_nl),
        StoredRows("IQ4_XS", 256, (_F16, 2, 4, 128), _iq4_xs),
        StoredRows("MXFP4", 32, (1, 16), _mxfp4),
    )
}
"""Formats with blocks, by ggml's names."""

FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Formats that are numbers of torch's."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DeviceMatrix:
    """[rows, cols], stored as `kind`.

    Attributes:
        planes: one tensor [rows, cols] of numbers, or the parts of the format's blocks.
    """

    kind: str
    cols: int
    planes: tuple[torch.Tensor, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.planes[0].shape[0]

    @property
    def width(self) -> int:
        """Numbers of a row, with those that pad its last block."""
        return self.planes[0].shape[1] * (QUANTISED[self.kind].numbers if self.blocked else 1)

    @property
    def blocked(self) -> bool:
        """Tell whether its numbers are stored in blocks."""
        return self.kind in QUANTISED

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(plane.nbytes for plane in self.planes)

    @classmethod
    def empty(cls, kind: str, rows: int, cols: int, memory: DeviceAllocator) -> DeviceMatrix:
        """Room for a matrix; `OutOfMemory` where there is none."""
        if kind in FLOATS:
            return cls(kind, cols, (memory.zeros(Purpose.WEIGHTS, (rows, cols), FLOATS[kind]),))
        form = QUANTISED[kind]
        blocks = -(-cols // form.numbers)
        planes = [
            memory.zeros(
                Purpose.WEIGHTS,
                (rows, blocks, -part // 2 if part < 0 else part),
                torch.float16 if part < 0 else torch.uint8,
            )
            for part in form.parts
        ]
        return cls(kind, cols, tuple(planes))

    def fill(self, first: int, stretch: Stretch, name: str) -> None:
        """Fill the rows from `first` on with rows as they are stored.

        Raises:
            UserFixable: numbers, or scales, that are not finite.
        """
        if self.blocked:
            parts = QUANTISED[self.kind].split(stretch)
        else:
            rows = stretch.view(np.int16) if stretch.dtype == np.uint16 else stretch
            kept = rows if rows.flags.writeable else rows.copy()
            parts = [torch.from_numpy(kept).view(FLOATS[self.kind])]
        for plane, part in zip(self.planes, parts, strict=True):
            if part.is_floating_point() and not torch.isfinite(part).all():
                raise not_finite(name)
            plane[first : first + len(part)].copy_(part)

    def part(self, first: int, count: int) -> DeviceMatrix:
        """Some of its rows, in the same memory."""
        planes = tuple(plane[first : first + count] for plane in self.planes)
        return DeviceMatrix(self.kind, self.cols, planes)

    def picked(self, index: torch.Tensor) -> DeviceMatrix:
        """Copy the rows that an index on the device names."""
        planes = tuple(plane.index_select(0, index) for plane in self.planes)
        return DeviceMatrix(self.kind, self.cols, planes)

    def expert(self, index: torch.Tensor, rows: int) -> DeviceMatrix:
        """Copy the matrix that `index` [1] names out of a stack of matrices of `rows` rows."""
        planes = tuple(
            plane.view(-1, rows, *plane.shape[1:]).index_select(0, index)[0]
            for plane in self.planes
        )
        return DeviceMatrix(self.kind, self.cols, planes)
