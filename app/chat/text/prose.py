"""Turns one markdown block (paragraph, heading, list item, quote) into formatted text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextListFormat

from app.chat.text.inline_writer import FormulaSource, InlineWriter
from app.chat.text.lines import SourceLines, SourcePlaces
from app.chat.text.markdown import MarkdownBlock
from app.chat.text.regions import INVISIBLE, Region, RegionKind
from app.chat.text.styles import INDENT, QUOTE_INDENT, is_rtl
from app.chat.text.table import rows_of
from app.markdown.dialect import blocks_only

if TYPE_CHECKING:
    from markdown_it.token import Token

    from app.chat.text.writer import DocumentWriter

_MAX_CELLS = 1_200
_BOXES = {"[ ] ": "\N{BALLOT BOX} ", "[x] ": "\N{BALLOT BOX WITH CHECK} "}


class ProseWriter:
    """Writes the tokens of one block at the cursor; what to paint behind it is in `regions`."""

    def __init__(self, writer: DocumentWriter, cursor: QTextCursor, block: MarkdownBlock) -> None:
        self._writer = writer
        self._look = writer.look
        self._cursor = cursor
        self._block = block
        self._lines = SourceLines(block.source)
        self._inline = InlineWriter(writer.look, writer.noting(block.start))
        self._quotes: list[int] = []
        self._lists: list[tuple[bool, int]] = []
        self._marker = False
        self.regions: list[Region] = []

    def write(self) -> None:
        """Parse and write the block."""
        tokens = blocks_only().parse(self._block.source)
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "paragraph_open":
                    self._paragraph(tokens[index + 1])
                    index += 2
                case "heading_open":
                    self._heading(int(token.tag[1:]), tokens[index + 1])
                    index += 2
                case "table_open":
                    end = _matching(tokens, index)
                    self._table(tokens[index : end + 1])
                    index = end
                case "fence" | "code_block":
                    self._code(token)
                case "math_block":
                    self._formula(token)
                case "hr":
                    self._rule()
                case _:
                    self._container(token)
            index += 1

    def _container(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self._lists.append((False, 1))
            case "ordered_list_open":
                self._lists.append((True, self._first_number(token)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._marker = True
            case "list_item_close":
                if self._marker:
                    self._start("nested", self._look.line())
                ordered, number = self._lists[-1]
                self._lists[-1] = (ordered, number + 1)
            case "blockquote_open":
                self._bare_marker()
                self._quotes.append(-1)
            case "blockquote_close":
                first = self._quotes.pop()
                if first >= 0:
                    indent = self._indent() + 1
                    last = self._cursor.blockNumber()
                    self.regions.append(Region(RegionKind.QUOTE, first, last, indent))

    def _first_number(self, token: Token) -> int:
        """Return the number of the first item of an ordered list."""
        if self._block.number is not None and not (self._lists or self._quotes):
            return self._block.number
        start = token.attrGet("start")
        return 1 if start is None else int(start)

    def _indent(self) -> float:
        """Return the left edge of the current container, in pixels."""
        return len(self._quotes) * QUOTE_INDENT + len(self._lists) * INDENT

    def _start(self, kind: str, style: QTextBlockFormat) -> None:
        quoted = len(self._quotes) * QUOTE_INDENT
        if style.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            style.setRightMargin(style.rightMargin() + quoted)
        else:
            style.setLeftMargin(style.leftMargin() + quoted)
        with_marker = self._marker and bool(self._lists)
        if self._lists and not with_marker:
            style.setIndent(len(self._lists))
        number = self._writer.start(self._cursor, "item" if with_marker else kind, style)
        self._quotes = [number if first < 0 else first for first in self._quotes]
        if with_marker:
            # A cursor of its own: this one may still remember a selection.
            style_of_list = self._list_format(ticked=kind == "task")
            QTextCursor(self._cursor.block()).createList(style_of_list)
            self._marker = False

    def _bare_marker(self) -> None:
        """Write the marker of an item that does not begin with text; the item goes on beside it."""
        if self._marker:
            style = self._look.line(rtl=is_rtl(self._block.source))
            style.setBottomMargin(-style.lineHeight())
            self._start("nested", style)
            self._cursor.insertText(INVISIBLE)  # Qt hides an empty text block beside a table
            self._writer.marker_alone()

    def _list_format(self, *, ticked: bool) -> QTextListFormat:
        ordered, number = self._lists[-1]
        style = QTextListFormat()
        style.setIndent(len(self._lists))
        if ticked:  # the box is the marker
            style.setStyle(QTextListFormat.Style.ListStyleUndefined)
            return style
        bullets = (
            QTextListFormat.Style.ListDisc,
            QTextListFormat.Style.ListCircle,
            QTextListFormat.Style.ListSquare,
        )
        if ordered:
            style.setStyle(QTextListFormat.Style.ListDecimal)
            style.setStart(number)
        else:
            style.setStyle(bullets[min(len(self._lists), 3) - 1])
        return style

    def _paragraph(self, inline: Token) -> None:
        kind = "nested" if self._lists else "prose"
        style = self._look.line(rtl=is_rtl(inline.content))
        if self._block.continues:
            self._writer.mark_continued(style, self._block)
            kind = "continued"
        box = _BOXES.get(inline.content[:4].lower(), "") if self._marker else ""
        self._start("task" if box else kind, style)
        if box:
            self._cursor.insertText(box, self._look.text())
        placed = self._placed(inline)
        skipped = 4 if box else 0
        self._inline.write(self._cursor, inline.content, placed, self._look.text(), skipped)
        if self._block.source.endswith(" "):  # it goes on in the next block
            self._cursor.insertText(" ", self._look.text())

    def _heading(self, level: int, inline: Token) -> None:
        style = self._look.line(rtl=is_rtl(inline.content))
        style.setHeadingLevel(level)
        self._start(f"heading{level}", style)
        placed = self._placed(inline)
        self._inline.write(self._cursor, inline.content, placed, self._look.heading(level))

    def _placed(self, inline: Token) -> SourcePlaces:
        return self._lines.paragraph(inline.content, inline.map[0] if inline.map else 0)

    def _formula(self, token: Token) -> None:
        first, last = token.map or (0, 1)
        start, end = self._lines.span(first, last)
        self._bare_marker()
        source = FormulaSource(self._block.source[start:end], start, end)
        style = self._look.line()
        style.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._start("formula", style)
        look = self._look.text()
        self._inline.formula(self._cursor, token.content, look, source, display=True)

    def _code(self, token: Token) -> None:
        self._bare_marker()
        indent = self._indent()
        first = self._writer.start_code(self._cursor, indent)
        self._quotes = [first if number < 0 else number for number in self._quotes]
        code = token.content.removesuffix("\n")
        line = (token.map or [0])[0] + (1 if token.type == "fence" else 0)
        placed = self._lines.paragraph(code, line)
        self._writer.insert_lines(code, self._cursor, placed, self._block.start)
        language = (token.info.split() or [""])[0]
        last = self._cursor.blockNumber()
        self.regions.append(Region(RegionKind.CODE, first, last, indent, language, code))

    def _rule(self) -> None:
        style = QTextBlockFormat()
        height = self._look.line().lineHeight() if self._marker else 9
        style.setLineHeight(height, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        self._bare_marker()
        self._start("rule", style)
        self._cursor.insertText(INVISIBLE)  # Qt hides an empty text block below a table
        number = self._cursor.blockNumber()
        self.regions.append(Region(RegionKind.RULE, number, number, self._indent()))

    def _table(self, tokens: Sequence[Token]) -> None:
        rows = rows_of(tokens, self._lines)
        if sum(len(row.contents) for row in rows) > _MAX_CELLS:
            text = "\n".join(" | ".join(row.contents) for row in rows)
            self._start("prose", self._look.line())
            self._cursor.setCharFormat(self._look.code())
            self._writer.insert_lines(text, self._cursor, SourcePlaces(), self._block.start)
            return
        self._bare_marker()
        self._writer.insert_table(self._cursor, rows, self._inline, self._indent())


def _matching(tokens: Sequence[Token], start: int) -> int:
    """Index of the token that closes the one at `start`."""
    level = tokens[start].level
    closing = tokens[start].type.replace("_open", "_close")
    return next(
        index
        for index in range(start, len(tokens))
        if tokens[index].type == closing and tokens[index].level == level
    )
