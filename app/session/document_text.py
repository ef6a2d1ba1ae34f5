"""The text of a PDF or DOCX file, read in a process of its own, which can be ended.

A document is data from anywhere: what it says is never executed, and no part of it is opened but
those with its text. This imports the standard library and pypdf, and nothing of Duotail.

DOCX is read here rather than by python-docx, which leaves out what was inserted with tracked
changes, content controls and text boxes, and unpacks every part of the file into memory.
"""

from __future__ import annotations

import re
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.parsers import expat

_MOST_XML = 64 * 2**20
"""Bytes of XML that are unpacked of one part; a document of a thousand pages has a tenth."""
_PIECE = 2**16
_OLE = b"\xd0\xcf\x11\xe0"
"""Begins files of old Word versions, and DOCX files with a password."""
_PARTS = r"word/(document\d*|footnotes\d*|endnotes\d*)\.xml"
_SKIPPED = {"del", "moveFrom", "Fallback", "pPrChange", "tabs"}
"""Text deleted or moved, a second copy for old programs, earlier formatting, tab stops."""
_MARKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "numPr": "- "}
_CONTROLS = {code: None for code in range(32) if chr(code) not in "\t\n"}


class NoText(Exception):
    """The document has no text to give; the message names the reason, a key of `documents`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The point at which reading stops with what has been read."""

    characters: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Extract:
    """Text of a document, or the reason why there is none.

    Attributes:
        read: pages that were read; 0 where the format has none.
        pages: all pages.
        empty: pages read that hold no text.
        cut: True if a limit was met before the end.
    """

    text: str = ""
    read: int = 0
    pages: int = 0
    empty: int = 0
    cut: bool = False
    refused: str = ""
    details: str = ""


def extract_json(path: str, characters: int, seconds: float) -> dict[str, object]:
    """Return `extract` as JSON carries it."""
    return asdict(extract(Path(path), Limits(characters, seconds)))


def extract(path: Path, limits: Limits) -> Extract:
    """Return the text of a document; this never raises."""
    try:
        return _pdf(path, limits) if path.suffix.lower() == ".pdf" else _docx(path, limits)
    except NoText as refused:
        return Extract(refused=str(refused))
    except MemoryError:
        return Extract(refused="heavy")
    except Exception as error:  # noqa: BLE001 - a damaged file can fail anywhere
        return Extract(refused="damaged", details=f"{type(error).__name__}: {error}"[:500])


def _tidy(text: str) -> str:
    """Remove what no text needs: control characters, blanks before line ends, many empty lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)
    text = re.sub(r"[ \t\u00a0]+\n", "\n", text.encode("utf-8", "replace").decode("utf-8"))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


# -- PDF ---------------------------------------------------------------------------------------


def _pdf(path: Path, limits: Limits) -> Extract:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    end = time.monotonic() + limits.seconds
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise NoText("encrypted")
        pages = len(reader.pages)
    except (FileNotDecryptedError, DependencyError) as error:
        raise NoText("encrypted") from error
    texts: list[str] = []
    room, empty, failed = limits.characters, 0, ""
    for number in range(pages):
        if room <= 0 or time.monotonic() > end:
            break
        try:
            text = _tidy(reader.pages[number].extract_text())
        except Exception as error:  # noqa: BLE001 - the other pages may be whole
            text, failed = "", f"{type(error).__name__}: {error}"[:500]
        empty += not text.strip()
        texts.append(text[:room])
        room -= len(text) + 2
    if empty == len(texts):
        if failed:
            return Extract(refused="damaged", details=failed)
        raise NoText("pictures")
    text = "\n\n".join(each for each in texts if each)
    return Extract(text, len(texts), pages, empty, cut=room <= 0 or len(texts) < pages)


# -- DOCX --------------------------------------------------------------------------------------


def _docx(path: Path, limits: Limits) -> Extract:
    with path.open("rb") as file:
        if file.read(4) == _OLE:
            raise NoText("encrypted")
    end = time.monotonic() + limits.seconds
    words = _Words(limits.characters)
    with zipfile.ZipFile(path) as archive:
        parts = sorted(name for name in archive.namelist() if re.fullmatch(_PARTS, name))
        if not any(name.startswith("word/document") for name in parts):
            raise NoText("damaged")
        for name in parts:
            parser = expat.ParserCreate(namespace_separator="}")
            parser.buffer_text = True
            words.listen(parser)
            for piece in _unpacked(archive, name):
                parser.Parse(piece)
                if words.room < 0 or time.monotonic() > end:
                    return Extract(_tidy(words.text), cut=True)
            parser.Parse(b"", True)
    text = _tidy(words.text)
    if not text.strip():
        raise NoText("pictures")
    return Extract(text)


def _unpacked(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield a part in pieces; no more than it may have, whatever the archive says of its size."""
    if archive.getinfo(name).flag_bits & 1:
        raise NoText("encrypted")
    size = 0
    with archive.open(name) as part:
        while piece := part.read(_PIECE):
            size += len(piece)
            if size > _MOST_XML:
                raise NoText("heavy")
            yield piece


class _Words:
    """Collects the text of WordprocessingML as it passes: paragraphs as lines, rows with "|"."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._pieces: list[str] = []
        self._skipping = 0
        self._in_text = False
        self._fresh: list[bool] = []
        """For every table row that is open: True before its first cell."""

    @property
    def text(self) -> str:
        """Everything so far."""
        return "".join(self._pieces)

    def listen(self, parser: expat.XMLParserType) -> None:
        """Take what `parser` reads next."""
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._said
        parser.StartDoctypeDeclHandler = self._doctype

    def _add(self, text: str) -> None:
        self._pieces.append(text[: max(self.room, 0)])
        self.room -= len(text)

    def _start(self, tag: str, _attributes: dict[str, str]) -> None:
        name = _name(tag)
        if self._skipping or name in _SKIPPED:
            self._skipping += 1
        elif name == "t":
            self._in_text = True
        elif name == "tr":
            self._fresh.append(True)
        elif name == "tc" and self._fresh:
            if not self._fresh[-1]:
                self._add(" | ")
            self._fresh[-1] = False
        elif name in _MARKS:
            self._add(_MARKS[name])

    def _end(self, tag: str) -> None:
        name = _name(tag)
        if self._skipping:
            self._skipping -= 1
        elif name == "t":
            self._in_text = False
        elif name in {"p", "tr"}:
            if name == "tr":
                self._fresh.pop()
            self._add(" " if self._fresh else "\n")

    def _said(self, text: str) -> None:
        if self._in_text and not self._skipping:
            self._add(text)

    def _doctype(self, *_: object) -> None:
        raise NoText("damaged")  # no document has one; entities could grow without end


def _name(tag: str) -> str:
    """The name of an element, "" for one that has nothing to do with text."""
    space, _, name = tag.rpartition("}")
    known = "wordprocessingml" in space or space.endswith(("/math", "/markup-compatibility/2006"))
    return name if known else ""
