"""Conversations and texts from files: JSON Lines (also zstd-compressed), folders of plain text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.errors import Absent, UserFixable
from engine.language import tr
from engine.request import Message, Role

LINES = (".jsonl", ".jsonl.zst")
TEXTS = (".txt", ".md")
LONGEST_LINE = 4 << 20
"""Bytes; a longer line is skipped."""
PIECE = 1 << 14
"""Characters of a plain text that are one example."""

_ROLES = {
    "system": Role.SYSTEM,
    "user": Role.USER,
    "human": Role.USER,
    "assistant": Role.ASSISTANT,
    "gpt": Role.ASSISTANT,
    "model": Role.ASSISTANT,
}


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation, or a text that is no conversation; `source`: what its file says of it."""

    messages: tuple[Message, ...] = ()
    text: str = ""
    source: str = ""

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.text) + sum(len(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file with examples, and its size in bytes."""

    path: Path
    size: int

    def examples(self, skipped: Callable[[], None]) -> Iterator[Example]:
        """In the file's order; `skipped` is called for every line that holds none.

        Raises:
            UserFixable: it cannot be read.
            Absent: nothing here can decompress it.
        """
        try:
            if self.path.suffix in TEXTS:
                yield from _pieces(self.path)
                return
            with self.path.open("rb") as stream:
                compressed = self.path.suffix == ".zst"
                yield from _lines(_decompressed(stream) if compressed else stream, skipped)
        except (OSError, UnicodeDecodeError, EOFError) as error:
            raise _unreadable(self.path, error) from error


def find_sources(paths: list[Path]) -> list[SourceFile]:
    """The files that the paths name, folders with all that they hold, in a fixed order.

    Raises:
        UserFixable: there is no such path, or no file of a known kind in it.
    """
    found: dict[Path, SourceFile] = {}
    for path in paths:
        if not path.exists():
            raise UserFixable(
                tr("There is no {path}.").format(path=path),
                tr("Name files (.jsonl, .jsonl.zst, .txt, .md) or a folder with such files."),
            )
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        usable = [file for file in files if file.is_file() and file.name.endswith(LINES + TEXTS)]
        if not usable:
            raise UserFixable(
                tr("{path} holds nothing to train on.").format(path=path),
                tr("Name files (.jsonl, .jsonl.zst, .txt, .md) or a folder with such files."),
            )
        found |= {file: SourceFile(file, file.stat().st_size) for file in usable}
    return [source for source in found.values() if source.size]


def _pieces(path: Path) -> Iterator[Example]:
    """A text, cut between paragraphs where it is long."""
    with path.open(encoding="utf-8-sig") as stream:
        piece: list[str] = []
        length = 0
        for line in stream:
            for start in range(0, len(line), PIECE):
                part = line[start : start + PIECE]
                piece.append(part)
                length += len(part)
                if length >= PIECE or (length >= PIECE // 2 and not part.strip()):
                    yield Example(text="".join(piece))
                    piece, length = [], 0
        if length:
            yield Example(text="".join(piece))


def _lines(stream: BinaryIO | io.BufferedReader, skipped: Callable[[], None]) -> Iterator[Example]:
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            skipped()
            continue
        if not line.strip():
            continue
        example = _read(line)
        if example is None:
            skipped()
        else:
            yield example


def _read(line: bytes) -> Example | None:
    """{"messages": [{"role", "content"}]}, {"conversations": [{"from", "value"}]}, {"text"}."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    if isinstance(row.get("text"), str) and row["text"].strip():
        return Example(text=row["text"], source=str(row.get("source", "")))
    turns = row.get("messages", row.get("conversations"))
    if not isinstance(turns, list) or not turns:
        return None
    messages = [_message(turn) for turn in turns]
    whole = [message for message in messages if message is not None]
    if len(whole) < len(messages):
        return None
    return Example(tuple(whole), source=str(row.get("source", "")))


def _message(turn: object) -> Message | None:
    if not isinstance(turn, Mapping):
        return None
    role = _ROLES.get(str(turn.get("role", turn.get("from"))))
    text = turn.get("content", turn.get("value"))
    return Message(role, text) if role is not None and isinstance(text, str) else None


def _decompressed(stream: BinaryIO) -> io.BufferedReader:
    """zstd: of Python itself from 3.14 on, else the `zstandard` package."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return io.BufferedReader(zstd.ZstdFile(stream))
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise Absent(
            tr("Files that end in .zst are compressed, and nothing here can read them."),
            tr("Install the Python package zstandard, or decompress them first (zstd -d)."),
        ) from error
    return io.BufferedReader(_Frames(zstandard.ZstdDecompressor().stream_reader(stream)))


class _Frames(io.RawIOBase):
    """What the package decompresses, its own error being one of files."""

    def __init__(self, reader: BinaryIO) -> None:
        self._reader = reader

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """As files do."""
        import zstandard

        try:
            data = self._reader.read(len(buffer))
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        buffer[: len(data)] = data
        return len(data)


def _unreadable(path: Path, error: Exception) -> UserFixable:
    return UserFixable(
        tr("{path} cannot be read.").format(path=path),
        tr("Give files in UTF-8, whole and readable."),
        str(error)[:500],
    )
