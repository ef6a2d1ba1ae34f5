"""Rows out of a damaged SQLite file, page by page, trusting nothing but the pages themselves.

SQLite finds rows from the root of a table down; where a page on the way is damaged, all below it is
out of its reach. Here every page is looked at by itself: whatever is a leaf of a table gives its
rows. The format is that of https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

Value = int | float | str | bytes | None
Row = tuple[int, list[Value]]
"""The row id and the columns; what is no longer there in an old row is missing at the end."""

_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_MOST_PAYLOAD = 1 << 30


class Broken(Exception):
    """Not a row, or not all of it is there."""


class Pages:
    """The pages of a file, with what its journal (-wal) holds laid over them."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        size = int.from_bytes(self._data[16:18], "big")
        size = 65_536 if size == 1 else size
        sensible = size >= 512 and size & (size - 1) == 0
        self.size = size if sensible else 4096
        reserved = self._data[20] if len(self._data) > 20 else 0
        self.usable = self.size - (reserved if sensible and reserved < 64 else 0)
        self._newer = self._journal(path.with_name(path.name + "-wal"))
        self.count = max(-(-len(self._data) // self.size), *self._newer, 0)

    @property
    def content(self) -> bytes:
        """All pages in a row."""
        if not self._newer:
            return self._data
        return b"".join(self.page(number) for number in range(1, self.count + 1))

    def page(self, number: int) -> bytes:
        """A page by its number, from 1; `Broken` beyond the end."""
        if not 0 < number <= self.count:
            raise Broken
        start = (number - 1) * self.size
        return self._newer.get(number) or self._data[start : start + self.size]

    def _journal(self, path: Path) -> dict[int, bytes]:
        """Pages of all finished transactions in the journal."""
        data = path.read_bytes() if path.exists() else b""
        done: dict[int, bytes] = {}
        going: dict[int, bytes] = {}
        at = _WAL_HEADER
        while at + _FRAME_HEADER + self.size <= len(data):
            number, commit = struct.unpack_from(">II", data, at)
            if data[at + 8 : at + 16] != data[16:24]:  # left over from an earlier round
                break
            start = at + _FRAME_HEADER
            going[number] = data[start : start + self.size]
            if commit:
                done |= going
                going = {}
            at = start + self.size
        return done


def whole(path: Path) -> bytes:
    """Return a file with its journal worked in, for a connection that keeps no journal."""
    pages = Pages(path)
    content = bytearray(pages.content)
    content[18:20] = b"\x01\x01"[: len(content[18:20])]
    return bytes(content)


def rows(path: Path, broken: Callable[[], None]) -> Iterator[Row]:
    """All rows of all tables, in no order; `broken` is called for each that cannot be read."""
    pages = Pages(path)
    for number in range(1, pages.count + 1):
        page = pages.page(number)
        start = 100 if number == 1 else 0
        if len(page) < start + 8 or page[start] != _LEAF:
            continue
        (cells,) = struct.unpack_from(">H", page, start + 3)
        for cell in range(min(cells, (len(page) - start - 8) // 2)):
            (at,) = struct.unpack_from(">H", page, start + 8 + 2 * cell)
            try:
                yield _cell(pages, page, at)
            except (Broken, IndexError, struct.error, OverflowError):
                broken()


def _cell(pages: Pages, page: bytes, at: int) -> Row:
    length, at = _varint(page, at)
    row_id, at = _varint(page, at)
    if not 0 < length < _MOST_PAYLOAD:
        raise Broken
    usable = pages.usable
    if length <= usable - 35:
        payload = page[at : at + length]
    else:
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= usable - 35 else least
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        payload = page[at : at + local] + _overflow(pages, following, length - local)
    if len(payload) < length:
        raise Broken
    return row_id, _record(payload)


def _overflow(pages: Pages, number: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        page = pages.page(number)
        parts.append(page[4 : 4 + min(length, pages.usable - 4)])
        length -= len(parts[-1])
        number = int.from_bytes(page[:4], "big")
        if not parts[-1]:
            raise Broken
    return b"".join(parts)


def _record(payload: bytes) -> list[Value]:
    header, at = _varint(payload, 0)
    if header > len(payload):
        raise Broken
    values: list[Value] = []
    body = header
    while at < header:
        kind, at = _varint(payload, at)
        value, size = _value(payload, body, kind)
        values.append(value)
        body += size
    if body > len(payload):
        raise Broken
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, 0
    if kind in (8, 9):
        return kind - 8, 0
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], 8
    if kind < 7:
        size = (1, 2, 3, 4, 6, 8)[kind - 1]
        return int.from_bytes(payload[at : at + size], "big", signed=True), size
    if kind < 12:
        raise Broken
    size = (kind - 12) // 2
    content = payload[at : at + size]
    return (content.decode("utf-8", "replace") if kind % 2 else content), size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    return value << 8 | data[at + 8], at + 9
