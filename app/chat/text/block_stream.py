"""Splits markdown into blocks as it arrives, so that a finished block is never looked at again.

The last complete block, the line being written and an open formula can still change. Text that
would be slow to parse or lay out (quotes nested a thousand deep, a list item of many pages) becomes
plain blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.chat.text.markdown import BlockKind, Chain, MarkdownBlock, clean, only_adds_words, plain
from app.markdown.dialect import GROWING, MAX_NESTING, OPEN_FORMULA, blocks_only
from engine.model.text.code_fence import FENCE, closes

_MAX_TAIL = 16_000
"""Characters that an unfinished block may have before it is given up as plain text."""
_SLICE = 8_000
_SETTLED = 16
"""After so many characters a paragraph's first line can no longer turn out to be a list item."""
_KINDS = {
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
    "paragraph_open": BlockKind.PROSE,
    "underlined": BlockKind.PROSE,  # a paragraph until its underline comes
    OPEN_FORMULA: BlockKind.PLAIN,
}
_ENDS_ITSELF = {"heading_open", "underlined", "hr", "math_block"}
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)]) [^\W\d_]")
_ORDERED = re.compile(r" {0,3}(\d{1,9})([.)])")


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
        return BlockKind.PLAIN if self.too_deep else _KINDS.get(self.token, BlockKind.PROSE)

    @property
    def splits(self) -> bool:
        """True if it may become a chain of blocks."""
        return self.kind is not BlockKind.PLAIN and self.token in _KINDS


def split(text: str) -> list[MarkdownBlock]:
    """The blocks of a whole text."""
    stream = BlockStream()
    stream.feed(text)
    stream.finish()
    return stream.committed


class BlockStream:
    """Blocks of a text that is still being written.

    `committed` only ever grows; `tail` holds what may still change.
    """

    def __init__(self) -> None:
        self.committed: list[MarkdownBlock] = []
        self.tail: tuple[MarkdownBlock, ...] = ()
        self._fed = 0
        self._begin("", 0)

    def _begin(self, source: str, start: int) -> None:
        """Go on with `source`, whose first character is number `start` of the text."""
        self._source = source
        self._start = start
        self._head = ""  # repeated in front of the source, so that it can be parsed
        self._continues = self._in_line = False
        self._fence = ""
        self._scanned = 0
        self._plain = False
        self._paragraph: _Piece | None = None
        """All of the source, where that is one paragraph."""

    def feed(self, text: str) -> None:
        """Take in the next piece of text."""
        text = clean(text)
        for start in range(0, len(text), _SLICE):
            piece = text[start : start + _SLICE]
            paragraph = self._paragraph
            longer = paragraph is not None and only_adds_words(self._source, piece)
            self._source += piece
            self._fed += len(piece)
            if paragraph is not None and longer and len(self._source) < _MAX_TAIL:
                self._show_tail(paragraph)
            else:
                self._advance(line_ended="\n" in piece)

    def finish(self) -> None:
        """Commit what is left: no more text comes."""
        if self._plain:
            self._commit_plain(self._source)
        else:
            source = self._source
            self.committed.extend(self._blocks(source, _parse(source)))
        self.tail = ()
        self._begin("", self._fed)

    def divide(self, block: MarkdownBlock) -> None:
        """Commit what is left, then `block`; text may come after it."""
        self.finish()
        self.committed.append(block)

    def _advance(self, *, line_ended: bool) -> None:
        self._paragraph = None
        if self._plain:
            self._advance_plain()
            if self._plain:
                return
        if self._fence and not self._fence_closed():
            self._show_tail(_Piece("fence", 0, 0))
            return
        if line_ended:
            self._commit(*_final(self._source))
        pieces = _parse(self._source, growing=True)
        if len(pieces) > 1 and _stands_apart(pieces[-1], self._source.split("\n")):
            self._commit(pieces[:-1], pieces[-1].start)
            pieces = _parse(self._source, growing=True)
        if len(pieces) == 1 and pieces[0].splits:
            self._show_tail(pieces[0])
            if pieces[0].token == "paragraph_open" and not self._continues:
                self._paragraph = pieces[0]
        else:
            self.tail = tuple(self._blocks(self._source, pieces, ended=False))
        if len(self._source) > _MAX_TAIL:
            self._begin_plain()

    def _commit(self, pieces: Sequence[_Piece], cut: int) -> None:
        """Commit `pieces`, which are all that stands before line `cut` of the source."""
        if cut:
            lines = self._source.split("\n")
            head, rest = "\n".join(lines[:cut]), "\n".join(lines[cut:])
            self.committed.extend(self._blocks(head, pieces))
            self._begin(rest, self._start + len(head) + 1)

    def _begin_plain(self) -> None:
        hidden = len(self._head) + 1 if self._head else 0
        self._begin(self._source[hidden:], self._start + hidden)
        self._plain = True
        self._advance_plain()

    def _chain(self, piece: _Piece, text: str, at: int) -> Chain:
        """Return the chain of a piece whose `text` begins at character `at` of the source."""
        if at or not self._continues:
            return Chain(piece.kind, text, self._start + at)
        hidden = len(self._head) + 1 if self._head else 0
        start = self._start + hidden
        return Chain(piece.kind, text[hidden:], start, self._head, True, self._in_line)

    def _show_tail(self, piece: _Piece) -> None:
        """Commit the full links of the only block in the source; the last one may still change."""
        chain = self._chain(piece, self._source, 0)
        scanned = self._scanned - len(self._source)
        for block in chain.split():
            self.committed.append(block)
        if chain.continues:
            fence, head = self._fence, chain.head + "\n" if chain.head else ""
            self._begin(head + chain.text, chain.start - len(head))
            self._head, self._continues, self._in_line = chain.head, True, chain.in_line
            self._fence, self._scanned = fence, scanned + len(self._source)
        is_open = piece.token == "fence" and not _is_closed(self._source)
        block = _last(chain, is_open=is_open)
        self.tail = () if block.empty else (block,)
        match = FENCE.match(self._source)
        if is_open and match is not None and not self._fence and "\n" in self._source:
            self._fence = match[2]
            self._scanned = self._source.index("\n") + 1

    def _fence_closed(self) -> bool:
        """Return whether the open code block has ended; every line is read once."""
        while (end := self._source.find("\n", self._scanned)) >= 0:
            line = self._source[self._scanned : end]
            self._scanned = end + 1
            if closes(line, self._fence):
                self._fence = ""
                return True
        return False

    def _blocks(
        self, source: str, pieces: Sequence[_Piece], *, ended: bool = True
    ) -> list[MarkdownBlock]:
        """`pieces` cut out of `source`; `ended` when no more text belongs to the last one."""
        lines = source.split("\n")
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        blocks: list[MarkdownBlock] = []
        before = self.committed[-1] if self.committed else None
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            stop = len(lines) if last else pieces[index + 1].start
            text = "\n".join(lines[piece.start : stop])
            chain = self._chain(piece, text, starts[piece.start])
            if piece.splits:
                blocks.extend(chain.split())
            is_open = piece.token == "fence" and last and not ended and not _is_closed(text)
            block = _last(chain, is_open=is_open)
            if not block.empty:
                before = _numbered(block, before) if piece.token == "list_item_open" else block
                blocks.append(before)
        return blocks

    def _advance_plain(self) -> None:
        """Commit plain text in chunks; a blank line leads back to markdown."""
        end = self._source.find("\n\n")
        if end >= 0:
            rest, start = self._source[end + 2 :], self._start + end + 2
            self._commit_plain(self._source[:end])
            self._begin(rest, start)
            self.tail = ()
            return
        *whole, last = plain(self._source, self._start) or [MarkdownBlock(BlockKind.PLAIN, "")]
        if whole:
            self._commit_plain("".join(block.source for block in whole))
        self.tail = (replace(last, continues=self._in_line, in_line=self._in_line),)

    def _commit_plain(self, text: str) -> None:
        for block in plain(text, self._start):
            in_line = self._in_line
            self.committed.append(replace(block, continues=in_line, in_line=in_line))
            self._in_line = True
        self._source = self._source[len(text) :]
        self._start += len(text)


def _parse(source: str, *, growing: bool = False) -> list[_Piece]:
    """The outermost blocks, with lists taken apart into items.

    While the source is `growing`, the last may be a formula that is not closed yet.
    """
    pieces: list[_Piece] = []
    for token in blocks_only().parse(source, {GROWING: growing}):
        item = token.level == 1 and token.type == "list_item_open"
        outer = token.level == 0 and not token.type.endswith("list_open")
        if token.map is not None and (item or outer):
            underlined = token.type == "heading_open" and token.markup in {"=", "-"}
            kind = "underlined" if underlined else token.type
            pieces.append(_Piece(kind, token.map[0], token.map[1]))
        elif pieces and token.level >= MAX_NESTING - 2:
            pieces[-1] = replace(pieces[-1], too_deep=True)
    return pieces


def _last(chain: Chain, *, is_open: bool) -> MarkdownBlock:
    """The last block of a chain, without blank space at its end unless it is open code."""
    block = chain.block(closed=not is_open)
    return block if is_open else replace(block, source=chain.text.rstrip())


def _numbered(item: MarkdownBlock, before: MarkdownBlock | None) -> MarkdownBlock:
    """Return an item of an ordered list with its number: the first one's is counted up."""
    mark = _ORDERED.match(item.source)
    if mark is None:
        return item
    number = int(mark[1])
    if before is not None and before.number is not None:
        above = _ORDERED.match(before.source)
        if above is not None and above[2] == mark[2]:
            number = before.number + 1
    return replace(item, number=number)


def _final(source: str) -> tuple[list[_Piece], int]:
    """Return the first pieces that no further text can change, and the line after them.

    They are told from complete lines alone: the line being written may become anything, and so may
    the lines from an open formula on.
    """
    lines = source.split("\n")
    border = len(lines) - 1
    pieces = _parse("\n".join(lines[:border]), growing=True)
    if pieces and pieces[-1].token == OPEN_FORMULA:
        border = pieces.pop().start
    if not pieces or _ends_by_itself(pieces[-1], lines, border):
        return pieces, border
    return pieces[:-1], pieces[-1].start


def _stands_apart(piece: _Piece, lines: Sequence[str]) -> bool:
    """Return whether a piece on the line being written is, for good, no part of the one before."""
    if piece.token == "list_item_open":
        return _ITEM.match(lines[piece.start]) is not None
    after_blank = piece.start > 0 and not lines[piece.start - 1].strip()
    text = lines[piece.start]
    plain_text = piece.token == "paragraph_open" and text[:1].isalnum()
    return after_blank and plain_text and len(text) >= _SETTLED


def _ends_by_itself(piece: _Piece, lines: Sequence[str], border: int) -> bool:
    """Return whether `piece` ends before line `border`, whatever comes after that line."""
    if piece.end > border:
        return False
    if piece.token in _ENDS_ITSELF:
        return True
    if piece.token == "fence":
        return _is_closed("\n".join(lines[piece.start : piece.end]))
    blank_follows = piece.end < border and not lines[piece.end].strip()
    return blank_follows and piece.token in {"paragraph_open", "table_open"}


def _is_closed(fence: str) -> bool:
    match = FENCE.match(fence)
    lines = fence.rstrip("\n").split("\n")
    return match is not None and len(lines) > 1 and closes(lines[-1], match[2])
