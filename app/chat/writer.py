"""Writes markdown blocks into a text document, and rewrites only those that can still change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from PySide6.QtGui import (
    QColor,
    QFont,
    QFontInfo,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

from app.chat.highlight import line_formats
from app.chat.markdown import Block, BlockKind
from app.theme.theme import current, mono_font, ui_font

_LINE = 4_000
"""Longest run of characters in one text block; longer code lines are broken for layout only."""
CODE_HEADER = 34
"""Height of the strip above code that holds the language and the copy button."""
CODE_PADDING = 14
INVISIBLE = "\u200b"
"""Fills a text block that has no text of its own."""


class Property(IntEnum):
    """Our own marks on text blocks."""

    CONTINUES = QTextFormat.Property.UserProperty + 1
    """This text block goes on in the line of the one before (a giant line broken for layout)."""
    FILLER = QTextFormat.Property.UserProperty + 2
    """An empty text block that Qt needs around a table."""


class RegionKind(StrEnum):
    """What the view paints behind text."""

    CODE = "code"
    QUOTE = "quote"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Region:
    """Text blocks `first` to `last` that share a background or a bar at `indent` pixels."""

    kind: RegionKind
    first: int
    last: int
    indent: float = 0
    language: str = ""
    code: str = ""


@dataclass(slots=True)
class _Written:
    """A block in the document, from the place where it began."""

    block: Block
    start: int
    fresh: bool
    after: str
    regions: list[Region] = field(default_factory=list)


class DocumentWriter:
    """Keeps a QTextDocument in step with a growing list of blocks.

    Committed blocks are never touched again; the live ones after them are replaced as needed, and
    an open code block only ever gets text appended.
    """

    def __init__(self, document: QTextDocument) -> None:
        self.document = document
        document.setUndoRedoEnabled(False)
        document.setIndentWidth(26)
        self._regions: list[Region] = []
        self._live: list[_Written] = []
        self._fresh = True
        self._after = ""
        self.committed_end = 0
        """Where the part of the document ends that is final."""

    @property
    def regions(self) -> list[Region]:
        """What to paint behind the text, from top to bottom."""
        return self._regions + [region for live in self._live for region in live.regions]

    def clear(self) -> None:
        """Start over with an empty document."""
        self.document.clear()
        self.document.setUndoRedoEnabled(False)
        self._regions = []
        self._live = []
        self._fresh, self._after = True, ""
        self.committed_end = 0

    def update(self, committed: Sequence[Block], tail: Sequence[Block]) -> None:
        """Append `committed` for good, then show `tail` for the time being."""
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
        for written in final:
            for region in written.regions:
                self._highlight(region)
            self._regions.extend(written.regions)
        end = self.document.characterCount() - 1
        self.committed_end = self._live[0].start if self._live else end

    def rehighlight(self) -> None:
        """Colour all finished code again, after a change of theme."""
        for region in self._regions:
            self._highlight(region)

    def _kept(self, wanted: Sequence[Block], cursor: QTextCursor) -> int:
        """How many live blocks can stay; an open code block that grew is extended on the spot."""
        kept = 0
        for written, block in zip(self._live, wanted, strict=False):
            if written.block != block and not self._extended(written, block, cursor):
                break
            written.block = block
            kept += 1
        return kept

    def _extended(self, written: _Written, block: Block, cursor: QTextCursor) -> bool:
        old = written.block
        both_code = old.kind is BlockKind.CODE and block.kind is BlockKind.CODE
        if not both_code or old.closed or old.language != block.language:
            return False
        before, after = old.code, block.code
        if written is not self._live[-1] or not after.startswith(before) or not before:
            return False
        cursor.movePosition(QTextCursor.MoveOperation.End)
        self._insert_lines(after[len(before) :], cursor)
        (region,) = written.regions
        written.regions = [_code_region(block, region.first, cursor, region.indent)]
        return True

    def _remove_from(self, index: int, cursor: QTextCursor) -> None:
        if index >= len(self._live):
            return
        first = self._live[index]
        cursor.setPosition(first.start)
        style, items = cursor.blockFormat(), cursor.block().textList()
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if first.fresh:
            _leave_list(cursor)
            cursor.setBlockFormat(QTextBlockFormat())
        elif not cursor.block().text():
            # An empty text block takes over the looks of what was removed behind it.
            _leave_list(cursor)
            cursor.setBlockFormat(style)
            if items is not None:
                items.add(cursor.block())
        self._fresh, self._after = first.fresh, first.after
        del self._live[index:]

    def _write(self, block: Block, cursor: QTextCursor) -> None:
        from app.chat.prose import ProseWriter

        written = _Written(block, cursor.position(), self._fresh, self._after)
        self._live.append(written)
        if block.kind is BlockKind.CODE:
            first = self.start_code(cursor, 0)
            self._insert_lines(block.code, cursor)
            written.regions.append(_code_region(block, first, cursor, 0))
        elif block.kind is BlockKind.PLAIN:
            self._start_plain(block, cursor)
            self._insert_lines(block.source, cursor)
        else:
            prose = ProseWriter(self, cursor)
            prose.write(block.source)
            written.regions.extend(prose.regions)

    def start(self, cursor: QTextCursor, kind: str, style: QTextBlockFormat) -> int:
        """Begin a text block of `kind` below the last one; its number."""
        gap = _gap(self._after, kind)
        style.setTopMargin(style.topMargin() + gap)
        if self._fresh:
            _leave_list(cursor)
            cursor.setBlockFormat(style)
            cursor.setBlockCharFormat(QTextCharFormat())
        else:
            cursor.insertBlock(style, QTextCharFormat())
        cursor.setCharFormat(QTextCharFormat())
        self._fresh, self._after = False, kind
        return cursor.blockNumber()

    def start_table(self, cursor: QTextCursor) -> int:
        """Make ready for a table; the space to leave above it.

        The empty text block that Qt leaves before it takes no room.
        """
        if self._fresh:
            _make_filler(cursor)
        return _gap(self._after, "table")

    def end_table(self, cursor: QTextCursor) -> None:
        """Go on after a table, in the empty text block that Qt puts there."""
        cursor.movePosition(QTextCursor.MoveOperation.End)
        _make_filler(cursor)
        self._fresh, self._after = True, "table"

    def start_code(self, cursor: QTextCursor, indent: float) -> int:
        """Begin a code block `indent` pixels from the left; the number of its first line."""
        style = _code_line(indent)
        style.setTopMargin(CODE_HEADER)
        first = self.start(cursor, "code", style)
        cursor.setCharFormat(code_format())
        return first

    def _start_plain(self, block: Block, cursor: QTextCursor) -> None:
        style = prose_line()
        if block.continues:
            style.setProperty(Property.CONTINUES, True)
        self.start(cursor, "continued" if block.continues else "prose", style)

    def _insert_lines(self, text: str, cursor: QTextCursor) -> None:
        """Insert text, each line a text block of the current kind without its top margin."""
        style = cursor.blockFormat()
        inner = QTextBlockFormat(style)
        inner.setTopMargin(0)
        inner.clearProperty(Property.CONTINUES)
        char_format = cursor.charFormat()
        first, *rest = text.split("\n")
        _insert_long(first, cursor, inner, char_format)
        for line in rest:
            cursor.insertBlock(inner, char_format)
            if line:
                _insert_long(line, cursor, inner, char_format)

    def insert_code(self, code: str, cursor: QTextCursor) -> None:
        """Insert the lines of a code block that was begun with `start_code`."""
        self._insert_lines(code, cursor)

    def _highlight(self, region: Region) -> None:
        if region.kind is not RegionKind.CODE:
            return
        formats = line_formats(region.code, region.language, current())
        if formats is None or len(formats) != region.last - region.first + 1:
            return
        block = self.document.findBlockByNumber(region.first)
        start = block.position()
        for spans in formats:
            block.layout().setFormats(spans)
            end = block.position() + block.length()
            block = block.next()
        self.document.markContentsDirty(start, end - start)


def prose_line() -> QTextBlockFormat:
    """The paragraph format of running text."""
    style = QTextBlockFormat()
    font = ui_font()
    font.setPointSizeF(prose_size())
    set_line_height(style, font, 1.55)
    return style


def prose_size() -> float:
    """Point size of running text."""
    return ui_font().pointSizeF() + 0.9


def set_line_height(style: QTextBlockFormat, font: QFont, factor: float) -> None:
    """Give lines at least `factor` times the font's size, whatever the font itself asks for."""
    height = QFontInfo(font).pixelSize() * factor
    style.setLineHeight(height, QTextBlockFormat.LineHeightTypes.MinimumHeight.value)


def code_format() -> QTextCharFormat:
    """The character format of code."""
    style = QTextCharFormat()
    font = mono_font()
    style.setFontFamilies(font.families())
    style.setFontFixedPitch(True)
    style.setProperty(QTextFormat.Property.FontSizeAdjustment, 0)
    style.setFontStyleHint(QFont.StyleHint.Monospace)
    style.setFontPointSize(font.pointSizeF() + 0.4)
    return style


def _code_line(indent: float) -> QTextBlockFormat:
    style = QTextBlockFormat()
    style.setLeftMargin(indent + CODE_PADDING)
    style.setRightMargin(CODE_PADDING)
    set_line_height(style, mono_font(), 1.5)
    return style


def _code_region(block: Block, first: int, cursor: QTextCursor, indent: float) -> Region:
    return Region(RegionKind.CODE, first, cursor.blockNumber(), indent, block.language, block.code)


def _insert_long(
    line: str, cursor: QTextCursor, inner: QTextBlockFormat, char_format: QTextCharFormat
) -> None:
    cursor.insertText(line[:_LINE], char_format)
    if len(line) > _LINE:
        going_on = QTextBlockFormat(inner)
        going_on.setProperty(Property.CONTINUES, True)
        for start in range(_LINE, len(line), _LINE):
            cursor.insertBlock(going_on, char_format)
            cursor.insertText(line[start : start + _LINE], char_format)


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


def _gap(before: str, after: str) -> int:
    """Vertical space between two kinds of text block, in pixels."""
    if before in {"", "table"} or after == "continued":
        return 0  # a table brings its own space below
    if before == "code":
        return CODE_PADDING + 14
    if after in {"item", "nested"} and before in {"item", "nested"}:
        return 4
    if after.startswith("heading"):
        return 20
    if before.startswith("heading"):
        return 6
    return 12
