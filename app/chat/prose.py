"""Turns one markdown block (paragraph, heading, list item, quote, table) into formatted text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextLength,
    QTextListFormat,
    QTextTable,
    QTextTableFormat,
)

from app.chat.markdown import parser
from app.chat.writer import (
    INVISIBLE,
    DocumentWriter,
    Region,
    RegionKind,
    code_format,
    prose_line,
    prose_size,
)
from app.theme.theme import current

_MAX_INLINE = 6_000
"""Longer paragraphs get no emphasis or links: their marks are shown as they are."""
_MAX_CELLS = 1_200
_HEADING_SCALE = {1: 1.4, 2: 1.22, 3: 1.08}
_QUOTE_INDENT = 18
_BELOW_TABLE = 14
_BOXES = {"[ ] ": "\N{BALLOT BOX} ", "[x] ": "\N{BALLOT BOX WITH CHECK} "}
_LINE_SEPARATOR = "\u2028"


@cache
def _parser() -> MarkdownIt:
    return parser()


class ProseWriter:
    """Writes the tokens of one block at the cursor; what to paint behind it is in `regions`."""

    def __init__(self, writer: DocumentWriter, cursor: QTextCursor) -> None:
        self._writer = writer
        self._cursor = cursor
        self._quotes: list[int] = []
        self._lists: list[tuple[bool, int]] = []
        self._marker = False
        self._formats: list[QTextCharFormat] = []
        self.regions: list[Region] = []

    def write(self, source: str) -> None:
        """Parse and write `source`."""
        tokens = _parser().parse(source)
        self._write(tokens)

    def _write(self, tokens: Sequence[Token]) -> None:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "paragraph_open":
                    self._paragraph(tokens[index + 1], "nested" if self._lists else "prose")
                    index += 2
                case "heading_open":
                    self._heading(int(token.tag[1:]), tokens[index + 1])
                    index += 2
                case "table_open":
                    end = _matching(tokens, index)
                    self._table(tokens[index + 1 : end])
                    index = end
                case "fence" | "code_block":
                    self._code(token)
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
                self._lists.append((True, int(token.attrGet("start") or 1)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._marker = True
            case "list_item_close":
                if self._marker:  # nothing in it yet
                    self._start("nested", prose_line())
                ordered, number = self._lists[-1]
                self._lists[-1] = (ordered, number + 1)
                self._marker = False
            case "blockquote_open":
                self._quotes.append(-1)
            case "blockquote_close":
                first = self._quotes.pop()
                if first >= 0:
                    indent = self._indent() + 1
                    last = self._cursor.blockNumber()
                    self.regions.append(Region(RegionKind.QUOTE, first, last, indent))

    def _indent(self) -> float:
        """Left edge of the current container, in pixels."""
        return len(self._quotes) * _QUOTE_INDENT + len(self._lists) * 26

    def _start(self, kind: str, style: QTextBlockFormat) -> None:
        style.setLeftMargin(style.leftMargin() + len(self._quotes) * _QUOTE_INDENT)
        with_marker = self._marker and bool(self._lists)
        if self._lists and not with_marker:
            style.setIndent(len(self._lists))
        number = self._writer.start(self._cursor, "item" if with_marker else kind, style)
        self._quotes = [number if first < 0 else first for first in self._quotes]
        if with_marker:
            # A cursor of its own: this one may still remember a selection.
            QTextCursor(self._cursor.block()).createList(self._list_format())
            self._marker = False

    def _list_format(self) -> QTextListFormat:
        ordered, number = self._lists[-1]
        style = QTextListFormat()
        style.setIndent(len(self._lists))
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

    def _paragraph(self, inline: Token, kind: str) -> None:
        self._start(kind, prose_line())
        if self._lists and inline.children and inline.children[0].content[:4].lower() in _BOXES:
            first = inline.children[0]
            first.content = _BOXES[first.content[:4].lower()] + first.content[4:]
        self._inline(inline, _text_format())

    def _heading(self, level: int, inline: Token) -> None:
        style = prose_line()
        style.setHeadingLevel(level)
        self._start(f"heading{level}", style)
        text = _text_format()
        text.setFontPointSize(prose_size() * _HEADING_SCALE.get(level, 1.0))
        text.setFontWeight(QFont.Weight.DemiBold)
        self._inline(inline, text)

    def _code(self, token: Token) -> None:
        indent = self._indent()
        first = self._writer.start_code(self._cursor, indent)
        code = token.content.removesuffix("\n")
        self._writer.insert_code(code, self._cursor)
        language = (token.info.split() or [""])[0]
        last = self._cursor.blockNumber()
        self.regions.append(Region(RegionKind.CODE, first, last, indent, language, code))

    def _rule(self) -> None:
        style = QTextBlockFormat()
        style.setLineHeight(9, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        self._start("rule", style)
        self._cursor.insertText(INVISIBLE)  # Qt hides an empty text block below a table
        number = self._cursor.blockNumber()
        self.regions.append(Region(RegionKind.RULE, number, number, self._indent()))

    def _table(self, tokens: Sequence[Token]) -> None:
        rows: list[list[tuple[Token, str, bool]]] = []
        for index, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in {"th_open", "td_open"}:
                align = str(token.attrGet("style") or "")
                rows[-1].append((tokens[index + 1], align, token.type == "th_open"))
        columns = max(len(row) for row in rows)
        if len(rows) * columns > _MAX_CELLS:
            text = "\n".join(" | ".join(cell.content for cell, _, _ in row) for row in rows)
            self._start("prose", prose_line())
            self._cursor.setCharFormat(code_format())
            self._writer.insert_code(text, self._cursor)
            return
        style = _table_format(self._indent())
        style.setTopMargin(self._writer.start_table(self._cursor))
        table = self._cursor.insertTable(len(rows), columns, style)
        for number, row in enumerate(rows):
            for column, (inline, align, header) in enumerate(row):
                self._cell(table, number, column, inline, align, header)
        self._writer.end_table(self._cursor)

    def _cell(
        self, table: QTextTable, row: int, column: int, inline: Token, align: str, header: bool
    ) -> None:
        cell = table.cellAt(row, column)
        text = _text_format()
        if header:
            text.setFontWeight(QFont.Weight.DemiBold)
            style = cell.format()
            style.setBackground(QColor(current().sunken))
            cell.setFormat(style)
        outer = self._cursor
        self._cursor = cell.firstCursorPosition()
        block = QTextBlockFormat()
        if "center" in align:
            block.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        elif "right" in align:
            block.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute)
        self._cursor.setBlockFormat(block)
        self._inline(inline, text)
        self._cursor = outer

    def _inline(self, inline: Token, text: QTextCharFormat) -> None:
        if len(inline.content) > _MAX_INLINE:
            self._cursor.insertText(inline.content.replace("\n", _LINE_SEPARATOR), text)
            return
        self._formats = [text]
        for token in inline.children or ():
            self._span(token)

    def _span(self, token: Token) -> None:
        style = self._formats[-1]
        match token.type:
            case "text" | "text_special":
                self._cursor.insertText(token.content, style)
            case "softbreak" | "hardbreak":
                self._cursor.insertText(_LINE_SEPARATOR, style)
            case "code_inline":
                self._cursor.insertText(token.content, _inline_code(style))
            case "image":
                shown = token.content or str(token.attrGet("src") or "")
                self._cursor.insertText(shown, _link(style, str(token.attrGet("src") or "")))
            case "strong_open" | "em_open" | "s_open" | "link_open":
                self._formats.append(_styled(style, token))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                self._formats.pop()
            case _:
                self._cursor.insertText(token.content, style)


def _matching(tokens: Sequence[Token], start: int) -> int:
    """Index of the token that closes the one at `start`."""
    level = tokens[start].level
    closing = tokens[start].type.replace("_open", "_close")
    return next(
        index
        for index in range(start, len(tokens))
        if tokens[index].type == closing and tokens[index].level == level
    )


def _text_format() -> QTextCharFormat:
    style = QTextCharFormat()
    style.setFontPointSize(prose_size())
    return style


def _styled(style: QTextCharFormat, token: Token) -> QTextCharFormat:
    result = QTextCharFormat(style)
    match token.type:
        case "strong_open":
            result.setFontWeight(QFont.Weight.DemiBold)
        case "em_open":
            result.setFontItalic(True)
        case "s_open":
            result.setFontStrikeOut(True)
        case _:
            return _link(style, str(token.attrGet("href") or ""))
    return result


def _link(style: QTextCharFormat, address: str) -> QTextCharFormat:
    result = QTextCharFormat(style)
    result.setAnchor(True)
    result.setAnchorHref(address)
    result.setForeground(QColor(current().accent))
    result.setFontUnderline(True)
    return result


def _inline_code(style: QTextCharFormat) -> QTextCharFormat:
    result = QTextCharFormat(style)
    result.merge(code_format())
    result.setFontPointSize(style.fontPointSize() * 0.9)
    result.setBackground(QColor(current().hover))
    return result


def _table_format(indent: float) -> QTextTableFormat:
    style = QTextTableFormat()
    style.setBorder(1)
    style.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    style.setBorderBrush(QColor(current().border))
    style.setBorderCollapse(True)
    style.setCellPadding(7)
    style.setCellSpacing(0)
    style.setBottomMargin(_BELOW_TABLE)
    style.setLeftMargin(indent)
    style.setHeaderRowCount(1)
    style.setWidth(QTextLength(QTextLength.Type.VariableLength, 0))
    return style
