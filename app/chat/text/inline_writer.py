"""Writes inline markdown at a cursor, and notes which source every stretch of it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QFont, QTextCharFormat, QTextCursor

from app.chat.text.lines import SourcePlaces
from app.chat.text.regions import Property
from app.chat.text.source_map import utf16_length
from app.chat.text.styles import TextFonts, link
from app.markdown.dialect import CELL, LONGEST_TEXT, parser
from app.markdown.formula_object import insert_formula
from app.markdown.maths.atoms import joined
from app.markdown.maths.formula import atoms_of, runs
from app.markdown.maths.shapes import is_flat

if TYPE_CHECKING:
    from markdown_it.token import Token

LINE_SEPARATOR = "\u2028"

_SHIFTS = {
    0: QTextCharFormat.VerticalAlignment.AlignNormal,
    1: QTextCharFormat.VerticalAlignment.AlignSuperScript,
    -1: QTextCharFormat.VerticalAlignment.AlignSubScript,
}

Note = Callable[[int, int, int, int], None]
"""Takes a document position, a length there, and the start and end of the source shown."""


@dataclass(frozen=True, slots=True)
class FormulaSource:
    """The source of a formula, and its place among the characters of the text."""

    text: str
    start: int
    end: int


class InlineWriter:
    """Writes the inline content of paragraphs, headings and cells."""

    def __init__(self, look: TextFonts, note: Note) -> None:
        self._look = look
        self._note = note
        self._formats: list[QTextCharFormat] = []

    def write(
        self,
        cursor: QTextCursor,
        content: str,
        placed: SourcePlaces,
        style: QTextCharFormat,
        at: int = 0,
        *,
        cell: bool = False,
    ) -> None:
        """Write `content` from character `at` on; `placed` tells where it stands in the source.

        `cell` tells that it is a table's, where `<br>` breaks the line.
        """
        from app.markdown.inline import places

        text = content[at:]
        if len(text) > LONGEST_TEXT:
            self._put(cursor, text.replace("\n", LINE_SEPARATOR), style, placed, at, len(content))
            return
        dialect = parser()
        tokens: list[Token] = []
        dialect.inline.parse(text, dialect, {CELL: cell}, tokens)
        self._formats = [style]
        for token, place in zip(tokens, places(tokens, text), strict=True):
            self._token(cursor, token, placed, place.start + at, place.end + at)

    def formula(
        self,
        cursor: QTextCursor,
        latex: str,
        style: QTextCharFormat,
        source: FormulaSource,
        *,
        display: bool = False,
    ) -> None:
        """Write a formula: as text with its variables slanted, or painted where that is too little.

        `display`: it stands on lines of its own.
        """
        upright = self._look.maths(style)
        upright.setProperty(Property.SOURCE, source.text)
        position, atoms = cursor.position(), atoms_of(latex)
        if is_flat(atoms):
            slanted = QTextCharFormat(upright)
            slanted.setFontItalic(True)
            for run in runs(joined(atoms).strip()):
                look = QTextCharFormat(slanted if run.variable else upright)
                look.setVerticalAlignment(_SHIFTS[run.shift])
                cursor.insertText(run.text, look)
        else:
            insert_formula(cursor, latex, upright, display=display)
        self._note(position, cursor.position() - position, source.start, source.end)

    def _token(
        self, cursor: QTextCursor, token: Token, placed: SourcePlaces, start: int, end: int
    ) -> None:
        style = self._formats[-1]
        match token.type:
            case "softbreak" | "hardbreak":
                cursor.insertText(LINE_SEPARATOR, style)
            case "code_inline":
                code = self._look.inline_code(style)
                self._put(cursor, token.content, code, placed, start, end)
            case "math_inline":
                stretches = list(placed.stretches(start, end))
                first = stretches[0][2] if stretches else 0
                last = stretches[-1][2] + stretches[-1][1] - stretches[-1][0] if stretches else 0
                source = FormulaSource(token.markup, first, last)
                self.formula(cursor, token.content, style, source)
            case "image":
                address = str(token.attrGet("src") or "")
                shown = token.content or address
                self._put(cursor, shown, link(style, address), placed, start, end)
            case "strong_open" | "em_open" | "s_open" | "link_open":
                self._formats.append(_styled(style, token))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                self._formats.pop()
            case _:
                self._put(cursor, token.content, style, placed, start, end)

    def _put(
        self,
        cursor: QTextCursor,
        text: str,
        style: QTextCharFormat,
        placed: SourcePlaces,
        start: int,
        end: int,
    ) -> None:
        if not text:
            return
        position = cursor.position()
        cursor.insertText(text, style)
        length = cursor.position() - position
        stretches = list(placed.stretches(start, end))
        if len(text) == end - start:
            for first, last, source in stretches:
                before = utf16_length(text[: first - start])
                units = utf16_length(text[first - start : last - start])
                self._note(position + before, units, source, source + last - first)
        elif stretches:
            first, last, source = stretches[-1]
            self._note(position, length, stretches[0][2], source + last - first)


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
            return link(style, str(token.attrGet("href") or ""))
    return result
