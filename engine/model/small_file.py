"""Reading files that have no reason to be large."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path


class TooLarge(OSError):
    """A file has more bytes than it may have."""


def read_at_most(path: Path, most: int) -> bytes:
    """Return a file's bytes; what its size is said to be does not matter.

    Raises:
        TooLarge: there are more than `most`.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"{path.name}: more than {most} bytes")
    return data


def text_at_most(path: Path, most: int) -> str:
    """Return the text of a UTF-8 file of at most `most` bytes; its lines end in newlines.

    Raises:
        TooLarge: there are more.
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    return TextIOWrapper(BytesIO(read_at_most(path, most)), encoding="utf-8").read()
