"""The selection in a message, as text and as HTML for other programs.

Text has list markers, the source of formulas and no breaks made for layout only. Of a table it has
a line for each row and a tab between cells, which spreadsheets take as cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import cast

from PySide6.QtGui import QTextBlock, QTextCursor, QTextFormat, QTextFragment, QTextList, QTextTable

from app.chat.text.regions import INVISIBLE, Property


@dataclass(frozen=True, slots=True)
class _Piece:
    """The selected part of a text block, and in a table the place of its cell."""

    text: str
    goes_on: bool
    """True if the text goes on in the line of the piece before it."""
    table: int = -1
    row: int = -1
    header: bool = False


def selected_text(cursor: QTextCursor) -> str:
    """The selection as plain text."""
    parts: list[str] = []
    before: _Piece | None = None
    for piece in _pieces(cursor):
        if before is not None and not piece.goes_on:
            same_row = piece.table >= 0 and (piece.table, piece.row) == (before.table, before.row)
            parts.append("\t" if same_row else "\n")
        parts.append(piece.text)
        before = piece
    return "".join(parts)


def selected_html(cursor: QTextCursor) -> str:
    """The selection as HTML if there is a table in it, else nothing: text says it all."""
    pieces = list(_pieces(cursor))
    if all(piece.table < 0 for piece in pieces):
        return ""
    parts: list[str] = []
    for table, group in groupby(pieces, lambda piece: piece.table):
        if table < 0:
            text = "".join(("" if each.goes_on else "\n") + each.text for each in group)
            parts.append(f'<p style="white-space: pre-wrap">{escape(text.strip(chr(10)))}</p>')
            continue
        parts.append("<table>")
        for _, cells in groupby(group, lambda piece: piece.row):
            parts += ["<tr>", *map(_cell, cells), "</tr>"]
        parts.append("</table>")
    return "".join(parts)


def _cell(piece: _Piece) -> str:
    tag = "th" if piece.header else "td"
    return f"<{tag}>{escape(piece.text)}</{tag}>"


def _pieces(cursor: QTextCursor) -> Iterator[_Piece]:
    """The selected part of every text block, from top to bottom."""
    start, end = cursor.selectionStart(), cursor.selectionEnd()
    # A selection that begins and ends in a table is of whole cells, in a rectangle.
    first_row, rows, first_column, columns = cast(
        "tuple[int, int, int, int]", cursor.selectedTableCells()
    )
    chosen = cursor.currentTable() if first_row >= 0 else None
    block = cursor.document().findBlock(start)
    number = -1
    while block.isValid() and block.position() <= end:
        table = cast("QTextTable | None", QTextCursor(block).currentTable())
        if block.blockFormat().hasProperty(Property.FILLER):
            pass
        elif table is None:
            number = -1
            yield _line(block, start, end)
        else:
            cell = table.cellAt(block.position())
            whole = table is chosen and rows * columns > 1
            inside = cell.row() in range(first_row, first_row + rows) and cell.column() in range(
                first_column, first_column + columns
            )
            if inside or not whole:
                edges = (0, block.position() + block.length()) if whole else (start, end)
                text = _chosen(block, *edges).replace("\n", " ")
                header = cell.format().hasProperty(QTextFormat.Property.BackgroundBrush)
                # A long table is a chain of several, of which only the first has a header.
                number = table.firstPosition() if number < 0 or header else number
                yield _Piece(text, False, number, table.firstPosition() + cell.row(), header)
        block = block.next()


def _line(block: QTextBlock, start: int, end: int) -> _Piece:
    """The selected part of a text block outside of tables, its list marker included."""
    text = _chosen(block, start, end)
    items = cast("QTextList | None", block.textList())
    if items is not None and start <= block.position():
        indent = "  " * (items.format().indent() - 1)
        marker = items.itemText(block)
        text = f"{indent}{marker if marker[:1].isalnum() else '-'} {text}"
    return _Piece(text, block.blockFormat().hasProperty(Property.CONTINUES))


def _chosen(block: QTextBlock, start: int, end: int) -> str:
    """The text of a block between two places of the document; of formulas, their source."""
    left = max(start - block.position(), 0)
    right = min(end - block.position(), block.length() - 1)
    units = block.text().encode("utf-16-le", "surrogatepass")
    parts: list[str] = []
    made = ""
    for fragment, formula in _fragments(block):
        first = max(fragment.position() - block.position(), left)
        last = min(fragment.position() - block.position() + fragment.length(), right)
        if first >= last or (formula and formula == made):
            continue
        made = formula
        text = units[2 * first : 2 * last].decode("utf-16-le", "replace")
        parts.append(formula or text.replace("\u2028", "\n").replace(INVISIBLE, ""))
    return "".join(parts)


def _fragments(block: QTextBlock) -> Iterator[tuple[QTextFragment, str]]:
    """The stretches of one format in a text block, with what they are the formula of."""
    at = block.begin()
    while not at.atEnd():
        fragment = at.fragment()
        yield fragment, str(fragment.charFormat().property(Property.SOURCE) or "")
        at += 1
