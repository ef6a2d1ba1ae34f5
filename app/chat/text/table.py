"""Tables, written row by row, so that one that is being streamed only grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QTextBlockFormat,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)

from app.chat.text.inline_writer import InlineWriter
from app.chat.text.lines import SourceLines, SourcePlaces
from app.chat.text.styles import TextFonts, is_rtl
from app.markdown.dialect import blocks_only
from app.theme.theme import current

if TYPE_CHECKING:
    from markdown_it.token import Token

BELOW_TABLE = 14


@dataclass(slots=True)
class TableRow:
    """The cells of one row, and where they stand in the source."""

    header: bool
    contents: list[str] = field(default_factory=list)
    aligns: list[str] = field(default_factory=list)
    places: list[SourcePlaces] = field(default_factory=list)


def parse_rows(text: str) -> list[TableRow]:
    """The rows of the table that `text` begins with, the header first."""
    return rows_of(blocks_only().parse(text), SourceLines(text))


def rows_of(tokens: Sequence[Token], lines: SourceLines) -> list[TableRow]:
    """The rows in the tokens of one table, up to its end."""
    rows: list[TableRow] = []
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append(TableRow(header=tokens[index + 1].type == "th_open"))
        elif token.type in {"th_open", "td_open"}:
            rows[-1].contents.append(tokens[index + 1].content)
            rows[-1].aligns.append(str(token.attrGet("style") or ""))
        elif token.type == "inline" and token.map is not None:
            number = token.map[0]
        elif token.type == "tr_close":
            rows[-1].places = lines.cells(rows[-1].contents, number)
        elif token.type == "table_close":
            break
    return rows


def write_rows(
    table: QTextTable, first: int, rows: Sequence[TableRow], inline: InlineWriter, look: TextFonts
) -> None:
    """Write `rows` into the empty rows of a table from number `first` on."""
    for number, row in enumerate(rows, first):
        text = look.text()
        if row.header:
            text.setFontWeight(QFont.Weight.DemiBold)
        cells = zip(row.contents, row.places, row.aligns, strict=True)
        for column, (content, placed, align) in enumerate(cells):
            cell = table.cellAt(number, column)
            if row.header:
                style = cell.format()
                style.setBackground(QColor(current().sunken))
                cell.setFormat(style)
            cursor = cell.firstCursorPosition()
            cursor.setBlockFormat(_cell_line(content, align))
            inline.write(cursor, content, placed, text, cell=True)


def clear_row(table: QTextTable, number: int) -> int:
    """Empty a row that is written anew; where in the document it begins."""
    for column in range(table.columns()):
        cell = table.cellAt(number, column)
        cursor = cell.firstCursorPosition()
        cursor.setPosition(cell.lastCursorPosition().position(), cursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
    return table.cellAt(number, 0).firstPosition()


def table_format(indent: float, above: float, widths: Sequence[float] = ()) -> QTextTableFormat:
    """The look of a table; `widths` of its columns in percent of the room there is."""
    style = QTextTableFormat()
    style.setBorder(1)
    style.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    style.setBorderBrush(QColor(current().border))
    style.setBorderCollapse(True)
    style.setCellPadding(7)
    style.setCellSpacing(0)
    style.setTopMargin(above)
    style.setBottomMargin(BELOW_TABLE)
    style.setLeftMargin(indent)
    fix_widths(style, widths)
    return style


def fix_widths(style: QTextTableFormat, widths: Sequence[float]) -> None:
    """Give columns `widths` in percent; none: as wide as what is in them."""
    if widths:
        kind = QTextLength.Type.PercentageLength
        style.setWidth(QTextLength(kind, min(sum(widths), 100.0)))
        total = sum(widths)
        shares = [QTextLength(kind, 100 * width / total) for width in widths]
        style.setColumnWidthConstraints(shares)
    else:
        style.setWidth(QTextLength(QTextLength.Type.VariableLength, 0))


def _cell_line(content: str, align: str) -> QTextBlockFormat:
    style = QTextBlockFormat()
    if is_rtl(content):
        style.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    if "center" in align:
        style.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    elif "right" in align:
        style.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute)
    return style
