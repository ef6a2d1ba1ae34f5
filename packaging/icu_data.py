"""Trim the data of ICU, the largest library of Qt's wheels, to what Qt asks ICU for.

Qt sorts and converts old encodings with it; dates and numbers of all places, languages, regions,
time zones, currencies, units, spelt numbers, transliteration and borders of words it has from
elsewhere. ICU takes what is missing from its root language. The library holds one archive: a
header, a table of names and offsets, and the files.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from pathlib import Path

_DROPPED = re.compile(
    rb"[^/]+/(?:(?:brkitr|curr|lang|rbnf|region|translit|unit|zone)/|[a-z]{2,3}(?:_[A-Z].*)?\.res$)"
)
_HEADER = re.compile(rb"..\xda\x27\x14\x00\x00\x00\x00\x00\x02\x00CmnD", re.DOTALL)
_SOURCE = """\
.section .rodata
.globl {symbol}
.type {symbol}, @object
.balign 16
{symbol}: .incbin "{file}"
.size {symbol}, . - {symbol}
.section .note.GNU-stack, "", @progbits
"""


def trim(library: Path) -> None:
    """Replace an ICU data library by one without what Qt never asks for.

    Raises:
        ValueError: it holds no archive that this knows.
    """
    archive = trimmed(library.read_bytes())
    version = library.name.rpartition(".")[2]
    with tempfile.TemporaryDirectory() as made:
        data, source = Path(made, "data"), Path(made, "data.s")
        data.write_bytes(archive)
        source.write_text(_SOURCE.format(symbol=f"icudt{version}_dat", file=data))
        options = ["-shared", "-nostdlib", "-s", f"-Wl,-soname,{library.name}"]
        subprocess.run(["cc", *options, "-o", str(library), str(source)], check=True)


def trimmed(library: bytes) -> bytes:
    """Return the archive in this library without what Qt never opens."""
    header = _HEADER.search(library)
    if header is None:
        raise ValueError("no archive of ICU")
    start = header.start()
    table = start + struct.unpack_from("<H", library, start)[0]
    (count,) = struct.unpack_from("<I", library, table)
    entries = [struct.unpack_from("<II", library, table + 4 + 8 * i) for i in range(count)]
    kept = []
    for (name_at, at), (_, end) in zip(entries, [*entries[1:], (0, len(library))], strict=True):
        name = library[table + name_at : library.index(b"\0", table + name_at)]
        if not _DROPPED.match(name):
            kept.append((name, library[table + at : table + end]))
    return library[start:table] + _packed(kept)


def _packed(files: list[tuple[bytes, bytes]]) -> bytes:
    """Return table, names and files, each of them at a multiple of 16 bytes."""
    names = b"".join(name + b"\0" for name, _ in files)
    at = 4 + 8 * len(files)
    bodies, told = [], []
    name_at, body_at = at, _rounded(at + len(names))
    for name, body in files:
        told.append(struct.pack("<II", name_at, body_at))
        name_at += len(name) + 1
        bodies.append(body.ljust(_rounded(len(body)), b"\0"))
        body_at += len(bodies[-1])
    head = struct.pack("<I", len(files)) + b"".join(told) + names
    return head.ljust(_rounded(len(head)), b"\0") + b"".join(bodies)


def _rounded(count: int) -> int:
    return -(-count // 16) * 16
