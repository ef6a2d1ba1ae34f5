"""Markdown as a document of Qt's: tables, code, and formulas set and painted."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtGui import QTextCharFormat, QTextCursor, QTextDocument

from app.markdown.formula_object import insert_formula
from app.markdown.html import html_body
from app.markdown.maths.drawing import as_text
from app.theme.theme import FORMULA_FAMILIES

_FORMULA = "formula:"


def set_markdown(document: QTextDocument, markdown: str, pixels: int) -> None:
    """Make this the text of a document, which paints formulas as `paint_formulas` has told it.

    Args:
        document: loads nothing by itself; its style sheet says how tables and code look.
        markdown: the text.
        pixels: size of letters in formulas, on the document's device.
    """
    formulas: list[tuple[str, bool]] = []

    def formula(latex: str, display: bool) -> str:
        text = as_text(latex)
        if text is not None:
            return text
        formulas.append((latex, display))
        return f'<img src="{_FORMULA}{len(formulas) - 1}">'

    body = html_body(markdown, formula).strip()  # its end would be a blank
    document.setHtml(body.replace("\n</code></pre>", "</code></pre>"))  # an empty line
    style = QTextCharFormat()
    style.setFontFamilies(list(FORMULA_FAMILIES))
    cursor = QTextCursor(document)
    for position, number in reversed(list(_pictures(document))):
        latex, display = formulas[number]
        cursor.setPosition(position)
        cursor.deleteChar()
        insert_formula(cursor, latex, style, display=display, pixels=pixels)


def _pictures(document: QTextDocument) -> Iterator[tuple[int, int]]:
    """Yield where a formula shall be, and its number."""
    block = document.begin()
    while block.isValid():
        at = block.begin()
        while not at.atEnd():
            found = at.fragment()
            if found.charFormat().isImageFormat():
                name = found.charFormat().toImageFormat().name()
                for place in range(found.length()):  # equal ones beside each other are one stretch
                    yield found.position() + place, int(name.removeprefix(_FORMULA))
            at += 1
        block = block.next()
