"""Training examples from files, shuffled: JSON Lines (also zstd-compressed) and plain texts."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from engine.errors import Absent, UserFixable
from engine.language import tr
from engine.request import Message, Role

LINES = (".jsonl", ".jsonl.zst")
TEXTS = (".txt", ".md")
LONGEST_LINE = 4 << 20
"""Bytes; a longer line is skipped."""
PIECE = 1 << 14
"""Characters of a plain text that are one example."""
BUFFER = 4096
"""Examples among which the next one is chosen."""
BUFFER_CHARACTERS = 32 << 20
"""Most text in the buffer, whatever the examples are like."""
OPEN_FILES = 64
"""Files that are read at a time; further ones wait behind these."""

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
    """A conversation, or a text that is no conversation."""

    messages: tuple[Message, ...] = ()
    text: str = ""

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
        """Yield the examples in the file's order; `skipped` is called for each line without one.

        Raises:
            UserFixable: it cannot be read.
            Absent: nothing here can decompress it.
        """
        try:
            if self.path.suffix in TEXTS:
                yield from _pieces(self.path)
                return
            with self.path.open("rb") as stream:
                if self.path.suffix == ".zst":
                    yield from _compressed_lines(stream, skipped)
                else:
                    yield from _lines(stream, skipped)
        except (OSError, UnicodeDecodeError, EOFError) as error:
            raise UserFixable(
                tr("{path} cannot be read.").format(path=self.path),
                tr("Give files in UTF-8, whole and readable."),
                str(error)[:500],
            ) from error


class ShuffledExamples:
    """All examples of some files, mixed by the sizes of the files and shuffled.

    Every iteration yields the same examples in the same order, so an example's number tells it
    from the others.

    Args:
        sources: the files.
        seed: of the order.

    Attributes:
        skipped: lines without an example that were met so far.
    """

    def __init__(self, sources: Sequence[SourceFile], seed: int) -> None:
        self._sources, self._seed = sources, seed
        self.skipped = 0

    def __iter__(self) -> Iterator[Example]:
        # The "0" was an epoch once: recordings of that time still have their order.
        rng = random.Random(f"{self._seed} 0")  # noqa: S311 - an order
        buffer: list[Example] = []
        held = 0
        for example in self._mixed(rng):
            buffer.append(example)
            held += example.size
            while len(buffer) > BUFFER or held > BUFFER_CHARACTERS:
                chosen = _taken(buffer, rng)
                held -= chosen.size
                yield chosen
        while buffer:
            yield _taken(buffer, rng)

    def _mixed(self, rng: random.Random) -> Iterator[Example]:
        """Draw each next example from a queue of files, large queues more often.

        So all queues end at about the same time.
        """
        files = list(self._sources)
        rng.shuffle(files)
        queues = [files[first::OPEN_FILES] for first in range(min(OPEN_FILES, len(files)))]
        sizes = [sum(file.size for file in queue) for queue in queues]
        readers = [self._one_by_one(queue) for queue in queues]
        while readers:
            chosen = rng.choices(range(len(readers)), sizes)[0]
            example = next(readers[chosen], None)
            if example is None:
                del readers[chosen], sizes[chosen]
            else:
                yield example

    def _one_by_one(self, files: Sequence[SourceFile]) -> Iterator[Example]:
        for file in files:
            yield from file.examples(self._skip)

    def _skip(self) -> None:
        self.skipped += 1


def find_sources(paths: list[Path]) -> list[SourceFile]:
    """Return the files that the paths name, and those in folders that they name, in a fixed order.

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
    """Yield a text in pieces, cut between paragraphs where it is long."""
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


def _taken(buffer: list[Example], rng: random.Random) -> Example:
    """Remove one at random; the last one takes its place."""
    index = rng.randrange(len(buffer))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()


def _lines(stream: BinaryIO, skipped: Callable[[], None]) -> Iterator[Example]:
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
        return Example(text=row["text"])
    turns = row.get("messages", row.get("conversations"))
    if not isinstance(turns, list) or not turns:
        return None
    messages = [_message(turn) for turn in turns]
    whole = [message for message in messages if message is not None]
    if len(whole) < len(messages):
        return None
    return Example(tuple(whole))


def _message(turn: object) -> Message | None:
    if not isinstance(turn, Mapping):
        return None
    role = _ROLES.get(str(turn.get("role", turn.get("from"))))
    text = turn.get("content", turn.get("value"))
    return Message(role, text) if role is not None and isinstance(text, str) else None


def _compressed_lines(stream: BinaryIO, skipped: Callable[[], None]) -> Iterator[Example]:
    """Read lines of a zstd file.

    Raises:
        OSError: its contents are damaged.
        Absent: see `_zstd_reader`.
    """
    reader, damaged = _zstd_reader(stream)
    try:
        yield from _lines(reader, skipped)
    except damaged as error:
        raise OSError(str(error)) from error


def _zstd_reader(stream: BinaryIO) -> tuple[BinaryIO, type[Exception]]:
    """Return a decompressing reader, and its error: Python's own from 3.14 on, else zstandard's.

    Raises:
        Absent: there is neither.
    """
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        pass
    else:
        return cast("BinaryIO", zstd.ZstdFile(stream)), zstd.ZstdError
    try:
        import zstandard  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise Absent(
            tr("Files that end in .zst are compressed, and nothing here can read them."),
            tr("Install the Python package zstandard, or decompress them first (zstd -d)."),
        ) from error
    reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    return cast("BinaryIO", io.BufferedReader(reader)), zstandard.ZstdError
