"""Writes markdown blocks into a text document, and rewrites only those that can still change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from PySide6.QtGui import (
    QColor,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextTable,
)

from app.chat.text.inline_writer import InlineWriter, Note
from app.chat.text.lines import SourceLines, SourcePlaces
from app.chat.text.markdown import BlockKind, MarkdownBlock, only_adds_words, safe_cut
from app.chat.text.regions import INVISIBLE, Property, Region, RegionKind, joined
from app.chat.text.source_map import Offsets, SourceMap, utf16_length
from app.chat.text.styles import CODE_HEADER, INDENT, TextFonts, gap, is_rtl
from app.chat.text.table import (
    TableRow,
    clear_row,
    fix_widths,
    parse_rows,
    table_format,
    write_rows,
)
from engine.model.text.code_fence import FENCE

_LINE = 4_000
"""Longest run of characters in one text block; longer lines are broken for layout only."""


@dataclass(slots=True)
class _Written:
    """A block in the document, from the place where it began."""

    block: MarkdownBlock
    start: int
    fresh: bool
    after: str
    regions: list[Region] = field(default_factory=list)
    table: QTextTable | None = None


class DocumentWriter:
    """Keeps a QTextDocument in step with a growing list of blocks.

    Committed blocks are never touched again; the live ones after them are replaced as needed, and
    an open code block or table only ever gets text appended.
    """

    def __init__(self, document: QTextDocument, offsets: Offsets, scale: float = 1.0) -> None:
        self.document = document
        self.look = TextFonts.now(scale)
        self.offsets = offsets
        self.map = SourceMap()
        self._scale = scale
        self._regions: list[Region] = []
        self._live: list[_Written] = []
        self._table: QTextTable | None = None
        self._widths: list[float] = []
        self._reset()

    def _reset(self) -> None:
        self.document.setUndoRedoEnabled(False)
        self.document.setIndentWidth(INDENT)
        self._regions.clear()
        self._live = []
        self._fresh, self._after = True, ""
        self._table, self._widths = None, []
        self.map = SourceMap()
        self.committed_end = 0
        """Place in the document where its final part ends."""

    @property
    def regions(self) -> list[Region]:
        """Return the regions to paint behind the text, from top to bottom."""
        live = [region for each in self._live for region in each.regions]
        if live and live[0].continues and self._regions:
            return self._regions[:-1] + joined([self._regions[-1], *live])
        return self._regions + joined(live)

    def clear(self, offsets: Offsets | None = None) -> None:
        """Start over with an empty document, in the fonts now in force."""
        self.document.clear()
        self.look = TextFonts.now(self._scale)
        if offsets is not None:
            self.offsets = offsets
        self._reset()

    def update(
        self, committed: Sequence[MarkdownBlock], tail: Sequence[MarkdownBlock]
    ) -> list[Region]:
        """Append `committed` for good, then show `tail` for the time being.

        Gives the regions that are now complete.
        """
        wanted = [*committed, *tail]
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        kept = self._kept(wanted, cursor)
        self._remove_from(kept, cursor)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for block in wanted[kept:]:
            self._write(block, cursor)
        cursor.endEditBlock()
        final, self._live = self._live[: len(committed)], self._live[len(committed) :]
        complete = self._commit(final)
        end = self.document.characterCount() - 1
        self.committed_end = self._live[0].start if self._live else end
        return complete

    def _commit(self, final: Sequence[_Written]) -> list[Region]:
        complete: list[Region] = []
        for written in final:
            for region in written.regions:
                last = self._regions[-1:] if region.continues else []
                self._regions[len(self._regions) - len(last) :] = joined([*last, region])
                if written.block.closed or written.block.kind is not BlockKind.CODE:
                    complete.append(self._regions[-1])
            if written.table is not None:
                self._table = written.table
        return complete

    def noting(self, base: int) -> Note:
        """Notes which source is shown where; its places count from character `base`."""

        def note(document: int, length: int, start: int, end: int) -> None:
            if base < 0:
                return  # our own words, not the message's
            stretches = list(self.offsets.stretches(base + start, base + end))
            if sum(units for units, _ in stretches) == length:
                for units, source in stretches:
                    self.map.add(document, units, source, units)
                    document += units
            elif stretches:
                units, source = stretches[-1]
                self.map.add(document, length, stretches[0][1], source + units - stretches[0][1])

        return note

    def _kept(self, wanted: Sequence[MarkdownBlock], cursor: QTextCursor) -> int:
        """Return how many live blocks can stay; one that only grew is extended on the spot."""
        kept = 0
        for written, block in zip(self._live, wanted, strict=False):
            if written.block != block and not self._extended(written, block, cursor):
                break
            written.block = block
            kept += 1
        return kept

    def _extended(self, written: _Written, block: MarkdownBlock, cursor: QTextCursor) -> bool:
        old = written.block
        if old.kind is not block.kind or written is not self._live[-1]:
            return False
        if block.kind is BlockKind.TABLE:
            return self._extend_table(written, block)
        if block.kind is BlockKind.PROSE:
            return self._extend_words(written, block, cursor)
        if block.kind is not BlockKind.CODE or old.closed or old.language != block.language:
            return False
        before, after = old.code, block.code
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if before.startswith(after) and after:
            _remove_end(before[len(after) :], cursor)  # it goes on in the next link of its chain
        elif after.startswith(before) and before:
            self.insert_lines(after[len(before) :], cursor, None, 0)
        else:
            return False
        (region,) = written.regions
        self._note_code(block, self.document.findBlockByNumber(region.first).position())
        written.regions = [self._code_region(block, region.first, cursor)]
        return True

    def _extend_words(self, written: _Written, block: MarkdownBlock, cursor: QTextCursor) -> bool:
        """Append words to the last line of a live paragraph, item or quote."""
        old, before, after = written.block, written.block.source, block.source
        same = (old.start, old.head, old.in_line) == (block.start, block.head, block.in_line)
        in_code = any(region.kind is RegionKind.CODE for region in written.regions)
        if not same or not after.startswith(before) or in_code:
            return False
        words = after[len(before) :]
        if not only_adds_words(before, words):
            return False
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if cursor.block().text()[-2:] != before[-2:]:
            return False  # below a table within an item
        if cursor.charFormat().isAnchor():
            return False  # the address would stay the shorter one
        position = cursor.position()
        cursor.insertText(words, cursor.charFormat())
        self.noting(block.start)(position, utf16_length(words), len(before), len(after))
        return True

    def _extend_table(self, written: _Written, block: MarkdownBlock) -> bool:
        """Rewrite the last row of a live table, and append what came after it."""
        old, table = written.block, written.table
        if table is None or not block.source.startswith(old.source) or old.head != block.head:
            return False
        lines = old.source.split("\n")
        headings = 0 if old.head else 2
        if len(lines) <= headings + 1:
            return False
        kept = "\n".join(lines[:-1]) + "\n"
        head = old.head or "\n".join(lines[:2])
        rows = parse_rows(head + "\n" + block.source[len(kept) :])[1:]
        first = table.rows() - 1
        if len(rows) != block.source.count("\n", len(kept)) + 1:
            return False
        self.map.cut(clear_row(table, first))
        if len(rows) > 1:
            table.appendRows(len(rows) - 1)
        note = self.noting(block.start + len(kept) - len(head) - 1)
        write_rows(table, first, rows, InlineWriter(self.look, note), self.look)
        return True

    def _remove_from(self, index: int, cursor: QTextCursor) -> None:
        if index >= len(self._live):
            return
        first = self._live[index]
        self.map.cut(first.start)
        cursor.setPosition(first.start)
        style = cursor.blockFormat()
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if first.fresh:
            _leave_list(cursor)
            cursor.setBlockFormat(QTextBlockFormat())
        elif not cursor.block().text():
            # An empty text block takes over the looks of what was removed behind it; its own
            # name the list that it is in.
            cursor.setBlockFormat(style)
        self._fresh, self._after = first.fresh, first.after
        del self._live[index:]

    def _write(self, block: MarkdownBlock, cursor: QTextCursor) -> None:
        from app.chat.text.prose import ProseWriter

        written = _Written(block, cursor.position(), self._fresh, self._after)
        self._live.append(written)
        match block.kind:
            case BlockKind.CODE:
                written.regions.append(self._write_code(block, cursor))
            case BlockKind.PLAIN:
                style = self.look.line(rtl=is_rtl(block.source[:400]))
                self.mark_continued(style, block)
                self.start(cursor, "continued" if block.continues else "prose", style)
                placed = SourceLines(block.source).paragraph(block.source, 0)
                self.insert_lines(block.source, cursor, placed, block.start)
            case BlockKind.TABLE:
                written.table = self._write_table(block, cursor)
            case BlockKind.THOUGHT:
                number = self.start(cursor, "thought", self.room(1))
                cursor.insertText(INVISIBLE)
                written.regions.append(Region(RegionKind.THOUGHT, number, number))
            case _:
                prose = ProseWriter(self, cursor, block)
                prose.write()
                written.regions.extend(prose.regions)

    def start(self, cursor: QTextCursor, kind: str, style: QTextBlockFormat) -> int:
        """Begin a text block of `kind` below the last one; its number."""
        style.setTopMargin(style.topMargin() + self._gap(kind))
        if self._fresh:
            _leave_list(cursor)
            cursor.setBlockFormat(style)
            cursor.setBlockCharFormat(QTextCharFormat())
        else:
            cursor.insertBlock(style, QTextCharFormat())
        cursor.setCharFormat(QTextCharFormat())
        number = cursor.blockNumber()
        if number == 0:
            self._leave_above(style.topMargin())
        self._fresh = False
        self._after = "prose" if kind == "continued" else kind
        return number

    def marker_alone(self) -> None:
        """Have what comes next begin in the line just written, beside the marker there."""
        self._after = "marker"

    def _gap(self, kind: str) -> float:
        """Return the space above a text block of `kind`."""
        return -self.look.line().lineHeight() if self._after == "marker" else gap(self._after, kind)

    def _leave_above(self, height: float) -> None:
        """Keep `height` pixels free above the first text block: Qt ignores its top margin."""
        frame = self.document.rootFrame()
        style = frame.frameFormat()
        if style.topMargin() != height:
            style.setTopMargin(height)
            frame.setFrameFormat(style)

    def mark_continued(self, style: QTextBlockFormat, block: MarkdownBlock) -> None:
        """Mark the text block of a block that goes on in the middle of a line."""
        if block.in_line:
            style.setProperty(Property.CONTINUES, True)

    def room(self, height: float) -> QTextBlockFormat:
        """The format of a text block that keeps `height` pixels free."""
        style = QTextBlockFormat()
        style.setLineHeight(height, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        style.setProperty(Property.FILLER, True)
        return style

    def start_code(self, cursor: QTextCursor, indent: float) -> int:
        """Begin a code block `indent` pixels from the left; the number of its first line."""
        style = self.look.code_line(indent)
        style.setTopMargin(CODE_HEADER)
        first = self.start(cursor, "code", style)
        cursor.setCharFormat(self.look.code())
        return first

    def _write_code(self, block: MarkdownBlock, cursor: QTextCursor) -> Region:
        if block.continues:
            style = self.look.code_line(0)
            self.mark_continued(style, block)
            first = self.start(cursor, "continued", style)
            self._after = "code"
            cursor.setCharFormat(self.look.code())
        else:
            first = self.start_code(cursor, 0)
        position = cursor.position()
        self.insert_lines(block.code, cursor, None, 0)
        self._note_code(block, position)
        return self._code_region(block, first, cursor)

    def _note_code(self, block: MarkdownBlock, position: int) -> None:
        """Note where the code that was written from `position` on stands in its source."""
        self.map.cut(position)
        code = block.code
        first = 0 if block.head or FENCE.match(block.source) is None else 1
        placed = SourceLines(block.source).paragraph(code, first)
        self._note_lines(code, position, placed, block.start)

    def _code_region(self, block: MarkdownBlock, first: int, cursor: QTextCursor) -> Region:
        last, joint = cursor.blockNumber(), "" if block.in_line else "\n"
        region = Region(RegionKind.CODE, first, last, 0, block.language, block.code)
        return replace(region, continues=block.continues, joint=joint)

    def _write_table(self, block: MarkdownBlock, cursor: QTextCursor) -> QTextTable:
        if not block.continues:
            inline = InlineWriter(self.look, self.noting(block.start))
            self._widths = []
            return self.insert_table(cursor, parse_rows(block.source), inline, 0)
        rows = parse_rows(block.head + "\n" + block.source)[1:]
        base = block.start - len(block.head) - 1
        if self._table is not None and not self._widths:
            self._fix_widths(self._table)
        inline = InlineWriter(self.look, self.noting(base))
        return self.insert_table(cursor, rows, inline, 0)

    def _fix_widths(self, table: QTextTable) -> None:
        """Keep the columns of a long table as they are, for the tables that continue it."""
        layout = self.document.documentLayout()
        room = max(self.document.textWidth(), 1.0)
        style = table.format().toTableFormat()
        padding = 2 * style.cellPadding() + style.border()
        blocks = [
            table.cellAt(0, column).firstCursorPosition().block()
            for column in range(table.columns())
        ]
        lefts = [layout.blockBoundingRect(block).left() for block in blocks]
        right = layout.frameBoundingRect(table).right() + style.cellPadding()
        widths = [max(after - left, padding + 10) for left, after in pairwise([*lefts, right])]
        self._widths = [100 * width / room for width in widths]
        fix_widths(style, self._widths)
        style.setBottomMargin(0)
        table.setFormat(style)

    def insert_table(
        self, cursor: QTextCursor, rows: Sequence[TableRow], inline: InlineWriter, indent: float
    ) -> QTextTable:
        """Insert a table; the empty text blocks that Qt leaves around it take no room."""
        if self._fresh:
            _make_filler(cursor)
        style = table_format(indent, self._gap("table"), self._widths)
        style.setHeaderRowCount(1 if rows and rows[0].header else 0)
        columns = max((len(row.contents) for row in rows), default=1)
        table = cursor.insertTable(max(len(rows), 1), columns, style)
        write_rows(table, 0, rows, inline, self.look)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        _make_filler(cursor)
        self._fresh, self._after = True, "table"
        return table

    def insert_lines(
        self, text: str, cursor: QTextCursor, placed: SourcePlaces | None, base: int
    ) -> None:
        """Insert text, each line a text block of the current kind without its top margin.

        `placed` tells where the text stands in the source, from character `base` on.
        """
        style = cursor.blockFormat()
        inner = QTextBlockFormat(style)
        inner.setTopMargin(0)
        inner.clearProperty(Property.CONTINUES)
        char_format = cursor.charFormat()
        position = cursor.position()
        first, *rest = text.split("\n")
        _insert_long(first, cursor, inner, char_format)
        if rest and max(map(len, rest)) <= _LINE:
            cursor.insertBlock(inner, char_format)
            cursor.insertText("\n".join(rest), char_format)
        else:
            for line in rest:
                cursor.insertBlock(inner, char_format)
                _insert_long(line, cursor, inner, char_format)
        if placed is not None:
            self._note_lines(text, position, placed, base)

    def _note_lines(self, text: str, position: int, placed: SourcePlaces, base: int) -> None:
        note = self.noting(base)
        at = 0
        for line in text.split("\n"):
            for piece in _pieces(line):
                units = utf16_length(piece)
                for start, end, source in placed.stretches(at, at + len(piece)):
                    if end - start == len(piece):
                        note(position, units, source, source + end - start)
                position += units + 1
                at += len(piece)
            at += 1


def _pieces(line: str) -> list[str]:
    """Split a line into the parts that are laid out on their own."""
    pieces = []
    while len(line) > _LINE:
        at = safe_cut(line, _LINE)
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line]


def _insert_long(
    line: str, cursor: QTextCursor, inner: QTextBlockFormat, char_format: QTextCharFormat
) -> None:
    first, *rest = _pieces(line)
    if first:
        cursor.insertText(first, char_format)
    if rest:
        going_on = QTextBlockFormat(inner)
        going_on.setProperty(Property.CONTINUES, True)
        for piece in rest:
            cursor.insertBlock(going_on, char_format)
            cursor.insertText(piece, char_format)


def _remove_end(text: str, cursor: QTextCursor) -> None:
    """Remove what `insert_lines` has put at the end of the document."""
    units = sum(utf16_length(piece) + 1 for line in text.split("\n") for piece in _pieces(line)) - 1
    cursor.setPosition(cursor.position() - units, QTextCursor.MoveMode.KeepAnchor)
    cursor.removeSelectedText()


def _leave_list(cursor: QTextCursor) -> None:
    """Setting a block format keeps membership in a list; this ends it."""
    items = cursor.block().textList()
    if items is not None:
        items.remove(cursor.block())


def _make_filler(cursor: QTextCursor) -> None:
    style = QTextBlockFormat()
    style.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    style.setProperty(Property.FILLER, True)
    cursor.setBlockFormat(style)
    tiny = QTextCharFormat()
    tiny.setFontPointSize(1)
    tiny.setForeground(QColor(0, 0, 0, 0))
    cursor.setBlockCharFormat(tiny)
