"""Splits markdown into blocks as it arrives, so that a finished block is never looked at again.

A block is a paragraph, heading, list item, quote, table or code block. Only the last one can still
change when more text comes. Text that would be slow to parse or lay out (a line of a megabyte, a
table of thousands of rows, quotes nested a thousand deep) becomes plain blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from markdown_it import MarkdownIt

_MAX_TAIL = 16_000
"""Characters that an unfinished block may have before it is given up as plain text."""
_SLICE = 8_000
_PLAIN_CHUNK = 4_000
_MAX_NESTING = 24
_SETTLED = 16
"""After so many characters a paragraph's first line can no longer turn out to be a list item."""

_UNSAFE = str.maketrans(
    {
        "\r": None,
        "\u2029": "\n",
        "\0": "\ufffd",
        "\ufdd0": "\ufffd",  # Qt marks frames with these four
        "\ufdd1": "\ufffd",
        "\ufffc": "\ufffd",
        "\u2028": "\n",
    }
)
_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^\n]*)")


class BlockKind(StrEnum):
    """How a block is rendered."""

    PROSE = "prose"
    CODE = "code"
    TABLE = "table"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of markdown that is rendered on its own."""

    kind: BlockKind
    source: str
    closed: bool = True
    """False for a code block whose closing fence has not come yet."""
    continues: bool = False
    """A plain block that goes on in the middle of its predecessor's line."""

    @property
    def language(self) -> str:
        """The word after a code block's opening fence."""
        match = _FENCE.match(self.source)
        words = match[3].split() if match else []
        return words[0] if words else ""

    @property
    def code(self) -> str:
        """The text inside a code block."""
        match = _FENCE.match(self.source)
        if match is None:  # indented code
            return "\n".join(line.expandtabs(4)[4:] for line in self.source.split("\n"))
        lines = self.source.split("\n")[1:]
        if self.closed and lines and _closes(lines[-1], match[2]):
            lines.pop()
        indent = len(match[1])
        if indent:
            lines = [line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in lines]
        return "\n".join(lines)


def parser() -> MarkdownIt:
    """The dialect: CommonMark with tables and strike-through.

    Raw HTML and link definitions are plain text: an answer never hides a line.
    """
    options = {"html": False, "maxNesting": _MAX_NESTING}
    dialect = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    return dialect.disable(["reference", "html_block", "html_inline"])


_BLOCKS_ONLY = parser().disable(["inline", "text_join"])


@dataclass(frozen=True, slots=True)
class _Piece:
    """An outermost block as the parser sees it, in lines of the source it was parsed from."""

    token: str
    start: int
    end: int
    """Line after the last one."""
    too_deep: bool = False

    @property
    def kind(self) -> BlockKind:
        if self.too_deep:
            return BlockKind.PLAIN
        kinds = {
            "fence": BlockKind.CODE,
            "code_block": BlockKind.CODE,
            "table_open": BlockKind.TABLE,
        }
        return kinds.get(self.token, BlockKind.PROSE)


def split(text: str) -> list[Block]:
    """The blocks of a whole text."""
    stream = BlockStream()
    stream.feed(text)
    stream.finish()
    return stream.committed


def plain(text: str) -> list[Block]:
    """`text` as it is, without any markdown, in pieces that lay out quickly."""
    text = text.translate(_UNSAFE)
    return [
        Block(BlockKind.PLAIN, text[start : start + _PLAIN_CHUNK], continues=start > 0)
        for start in range(0, len(text), _PLAIN_CHUNK)
    ]


class BlockStream:
    """Blocks of a text that is still being written.

    `committed` only ever grows; `tail` holds what may still change.
    """

    def __init__(self) -> None:
        self.committed: list[Block] = []
        self.tail: tuple[Block, ...] = ()
        self._source = ""
        self._fence = ""
        self._fence_scanned = 0
        self._plain = False
        self._in_line = False

    def feed(self, text: str) -> None:
        """Take in the next piece of text."""
        text = text.translate(_UNSAFE)
        for start in range(0, len(text), _SLICE):
            self._source += text[start : start + _SLICE]
            self._advance()

    def finish(self) -> None:
        """Commit what is left: no more text comes."""
        if self._plain:
            self._commit_plain(self._source)
        else:
            self.committed.extend(_blocks(self._source, _parse(self._source), ended=True))
        self._source = self._fence = ""
        self.tail = ()

    def _advance(self) -> None:
        if self._plain:
            self._advance_plain()
            if self._plain:
                return
        if self._fence and not self._fence_closed():
            self.tail = (Block(BlockKind.CODE, self._source, closed=False),)
            return
        pieces = _parse(self._source)
        final = _final(pieces, self._source)
        lines = self._source.split("\n")
        cut = pieces[final].start if final < len(pieces) else len(lines) - 1
        if cut:
            head, self._source = "\n".join(lines[:cut]), "\n".join(lines[cut:])
            self.committed.extend(_blocks(head, pieces[:final], ended=True))
            pieces = _parse(self._source)
        self.tail = tuple(_blocks(self._source, pieces, ended=False))
        if len(self.tail) == 1 and not self.tail[0].closed and "\n" in self._source:
            match = _FENCE.match(self._source)
            self._fence = match[2] if match else ""
            self._fence_scanned = self._source.index("\n") + 1
        elif len(self._source) > _MAX_TAIL:
            self._plain, self._in_line = True, False
            self._advance_plain()

    def _fence_closed(self) -> bool:
        """Whether the open code block has ended; every line is read once."""
        while (end := self._source.find("\n", self._fence_scanned)) >= 0:
            line = self._source[self._fence_scanned : end]
            self._fence_scanned = end + 1
            if _closes(line, self._fence):
                self._fence = ""
                return True
        return False

    def _advance_plain(self) -> None:
        """Commit plain text in chunks; a blank line leads back to markdown."""
        end = self._source.find("\n\n")
        if end >= 0:
            self._commit_plain(self._source[:end])
            self._source = self._source[end + 2 :]
            self._plain = False
            self.tail = ()
            return
        # The last character stays: it may be the first half of a blank line.
        whole = max(len(self._source) - 1, 0) // _PLAIN_CHUNK * _PLAIN_CHUNK
        self._commit_plain(self._source[:whole])
        self._source = self._source[whole:]
        self.tail = (Block(BlockKind.PLAIN, self._source, continues=self._in_line),)

    def _commit_plain(self, text: str) -> None:
        for start in range(0, len(text), _PLAIN_CHUNK):
            chunk = text[start : start + _PLAIN_CHUNK]
            self.committed.append(Block(BlockKind.PLAIN, chunk, continues=self._in_line))
            self._in_line = True


def _parse(source: str) -> list[_Piece]:
    """The outermost blocks, with lists taken apart into items."""
    pieces: list[_Piece] = []
    for token in _BLOCKS_ONLY.parse(source):
        item = token.level == 1 and token.type == "list_item_open"
        outer = token.level == 0 and not token.type.endswith("list_open")
        if token.map is not None and (item or outer):
            pieces.append(_Piece(token.type, token.map[0], token.map[1]))
        elif pieces and token.level >= _MAX_NESTING - 2:
            pieces[-1] = replace(pieces[-1], too_deep=True)
    return pieces


def _blocks(source: str, pieces: Sequence[_Piece], *, ended: bool) -> list[Block]:
    """`pieces` cut out of their source; `ended` when no more text belongs to the last one."""
    lines = source.split("\n")
    blocks = []
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        stop = len(lines) if last else pieces[index + 1].start
        text = "\n".join(lines[piece.start : stop])
        if piece.token == "fence" and last and not ended and not _is_closed(text):
            blocks.append(Block(BlockKind.CODE, text, closed=False))
        else:
            blocks.append(Block(piece.kind, text.rstrip()))
    return blocks


def _final(pieces: Sequence[_Piece], source: str) -> int:
    """How many of the first pieces no further text can change."""
    if not pieces:
        return 0
    lines = source.split("\n")
    complete = len(lines) - 1  # how many lines have had their line break
    *before, last = pieces
    if last.start < complete:
        return len(pieces) if _ends_by_itself(last, lines, complete) else len(before)
    settled = _starts_paragraph(last, lines)
    if before and not settled and not _ends_by_itself(before[-1], lines, last.start):
        return len(before) - 1
    return len(before)


def _starts_paragraph(piece: _Piece, lines: Sequence[str]) -> bool:
    """Whether a piece on the line being written is, for good, no part of the one before."""
    after_blank = piece.start > 0 and not lines[piece.start - 1].strip()
    text = lines[piece.start]
    plain = piece.token == "paragraph_open" and text[:1].isalnum()
    return after_blank and plain and len(text) >= _SETTLED


def _ends_by_itself(piece: _Piece, lines: Sequence[str], border: int) -> bool:
    """Whether `piece` ends before line `border`, whatever comes after that line."""
    if piece.end > border:
        return False
    if piece.token in {"heading_open", "hr"}:
        return True
    if piece.token == "fence":
        return _is_closed("\n".join(lines[piece.start : piece.end]))
    blank_follows = piece.end < border and not lines[piece.end].strip()
    return blank_follows and piece.token in {"paragraph_open", "table_open"}


def _is_closed(fence: str) -> bool:
    match = _FENCE.match(fence)
    lines = fence.rstrip("\n").split("\n")
    return match is not None and len(lines) > 1 and _closes(lines[-1], match[2])


def _closes(line: str, mark: str) -> bool:
    """Whether `line` is a closing fence for a code block opened with `mark`."""
    stripped = line.strip(" \t")
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(stripped) >= len(mark) and set(stripped) == {mark[0]}
