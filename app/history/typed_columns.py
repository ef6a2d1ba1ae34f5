"""Whole numbers and texts as columns of bytes that compress well. Nothing in them is run.

A column is told by the width of its widest number and their count; its bytes lie in planes, all
lowest bytes first, because the upper ones are nearly always the same.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence

_HEAD = struct.Struct("<BI")
_KINDS = "bhiq"
"""Signed words of 1, 2, 4 and 8 bytes."""
_SWAPPED = sys.byteorder != "little"


class Damaged(ValueError):
    """The data are no column."""


def pack_column(values: Sequence[int]) -> bytes:
    """Numbers of up to 64 bits, with their sign."""
    lowest, highest = min(values, default=0), max(values, default=0)
    kind = next(
        k for k, bits in zip(_KINDS, (7, 15, 31, 63), strict=True) if _fits(lowest, highest, bits)
    )
    words = array(kind, values)
    if _SWAPPED:
        words.byteswap()
    raw, width = words.tobytes(), words.itemsize
    return _HEAD.pack(width, len(values)) + b"".join(raw[plane::width] for plane in range(width))


def _fits(lowest: int, highest: int, bits: int) -> bool:
    return -(1 << bits) <= lowest and highest < 1 << bits


def pack_texts(texts: Sequence[str]) -> bytes:
    """Texts: their lengths in bytes, then all letters."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return pack_column([len(each) for each in encoded]) + b"".join(encoded)


def steps(values: Iterable[int]) -> list[int]:
    """Return the difference of each number from the one before: small where they grow slowly."""
    before, found = 0, []
    for value in values:
        found.append(value - before)
        before = value
    return found


class ColumnReader:
    """Reads columns one after another; `Damaged` where there is none."""

    def __init__(self, data: bytes, most: int) -> None:
        self._data, self._at, self._most = data, 0, most

    def numbers(self, count: int | None = None) -> list[int]:
        """The next column, which must have so many numbers."""
        width, length = _HEAD.unpack(self._take(_HEAD.size))
        if width not in (1, 2, 4, 8) or length > self._most or count not in (None, length):
            raise Damaged
        raw = bytearray(width * length)
        for plane in range(width):
            raw[plane::width] = self._take(length)
        words = array(_KINDS[width.bit_length() - 1], bytes(raw))
        if _SWAPPED:
            words.byteswap()
        return words.tolist()

    def sums(self, count: int) -> list[int]:
        """The inverse of `steps`."""
        value, found = 0, []
        for step in self.numbers(count):
            value += step
            found.append(value)
        return found

    def naturals(self, count: int) -> list[int]:
        """The next column, none of whose numbers is below 0."""
        values = self.numbers(count)
        if values and min(values) < 0:
            raise Damaged
        return values

    def texts(self, count: int) -> list[str]:
        """The next column of texts."""
        lengths = self.naturals(count)
        letters = self._take(sum(lengths))
        at, found = 0, []
        for length in lengths:
            found.append(letters[at : at + length].decode("utf-8", "surrogatepass"))
            at += length
        return found

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self._at != len(self._data):
            raise Damaged

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise Damaged
        self._at += count
        return taken
