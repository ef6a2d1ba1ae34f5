"""Formulas painted within a text: one character of the document each."""

from __future__ import annotations

import math
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontInfo,
    QFontMetrics,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

if TYPE_CHECKING:
    from app.markdown.maths.boxes import Box

_KIND = QTextFormat.ObjectTypes.UserObject.value + 1
_OBJECT = "\ufffc"
_SMALLEST = 0.5
"""A formula that is wider than its line is painted smaller, down to this."""


class _Property(IntEnum):
    """Marks on the format of a formula."""

    LATEX = QTextFormat.Property.UserProperty + 4
    """Its LaTeX."""
    DISPLAY = QTextFormat.Property.UserProperty + 5
    """True where it stands on lines of its own."""
    PIXELS = QTextFormat.Property.UserProperty + 6
    """Size of its letters."""


class FormulaObject(QPyTextObject):
    """Tells a document's layout how large formulas are, and paints them."""

    def intrinsicSize(  # noqa: N802
        self, doc: QTextDocument, _position: int, style: QTextFormat
    ) -> QSizeF:
        """Return the size of a formula, whose line is where letters' is."""
        look = style.toCharFormat()
        box, scale = _box(look), _scale(_box(look), doc)
        return QSizeF(box.width * scale, box.ascent * scale + QFontMetrics(look.font()).descent())

    def drawObject(  # noqa: N802
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        doc: QTextDocument,
        _position: int,
        style: QTextFormat,
    ) -> None:
        """Paint a formula in the colour of the text around it."""
        look, area = style.toCharFormat(), QRectF(rect)
        coloured = look.hasProperty(QTextFormat.Property.ForegroundBrush)
        colour = look.foreground().color() if coloured else painter.pen().color()
        box = _box(look)
        scale = _scale(box, doc)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(area.left(), area.bottom() - QFontMetrics(look.font()).descent())
        painter.scale(scale, scale)
        self.draw(painter, box, latex_of(look), colour)
        painter.restore()

    def draw(self, painter: QPainter, box: Box, latex: str, colour: QColor) -> None:
        """Draw a formula; its line begins at 0, 0."""
        del latex
        box.paint(painter, 0.0, 0.0, colour)


def paint_formulas(document: QTextDocument, painter: FormulaObject) -> None:
    """Let a document paint its formulas."""
    document.documentLayout().registerHandler(_KIND, painter)


def latex_of(look: QTextCharFormat) -> str:
    """Return what a formula in the format `look` is made from."""
    return str(look.property(_Property.LATEX))


def insert_formula(
    cursor: QTextCursor,
    latex: str,
    style: QTextCharFormat,
    *,
    display: bool,
    pixels: int | None = None,
) -> None:
    """Insert a formula in the format that text of it would have.

    Args:
        cursor: where.
        latex: the formula.
        style: the format of the text around it, in a family of formulas.
        display: it stands on lines of its own.
        pixels: size of its letters on the device of the document; None: as on the screen.
    """
    look = QTextCharFormat(style)
    look.setObjectType(_KIND)
    look.setProperty(_Property.LATEX, latex)
    look.setProperty(_Property.DISPLAY, display)
    look.setProperty(_Property.PIXELS, pixels or QFontInfo(style.font()).pixelSize())
    # Qt ends an object where letters of its font end: the size of the font says how deep that is.
    look.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
    look.clearProperty(QTextFormat.Property.FontPointSize)
    reach = _reaching(tuple(look.fontFamilies() or ()), math.ceil(_box(look).descent))
    look.setProperty(QTextFormat.Property.FontPixelSize, reach)
    cursor.insertText(_OBJECT, look)


def _box(look: QTextCharFormat) -> Box:
    return formula_box(
        latex_of(look),
        tuple(look.fontFamilies() or ()),
        int(look.property(_Property.PIXELS)),
        display=bool(look.property(_Property.DISPLAY)),
    )


@lru_cache(maxsize=512)
def formula_box(latex: str, families: tuple[str, ...], pixels: int, *, display: bool) -> Box:
    """Return a formula that has been set in these families at this size."""
    from app.markdown.maths.formula import atoms_of  # most texts have none to set
    from app.markdown.maths.typeset import typesetter

    return typesetter(families).set(atoms_of(latex), pixels, display=display)


@lru_cache(maxsize=512)
def _reaching(families: tuple[str, ...], descent: int) -> int:
    """Return the size of a font whose letters reach so far below their line, at least."""
    font = QFont()
    font.setFamilies(list(families))
    pixels = max(descent, 1)
    font.setPixelSize(pixels)
    while QFontMetrics(font).descent() < descent:
        pixels += 1
        font.setPixelSize(pixels)
    return pixels


def _scale(box: Box, doc: QTextDocument) -> float:
    """Return how much smaller a formula has to be for its line."""
    room = doc.textWidth()
    return max(min(room / box.width, 1.0), _SMALLEST) if room > 0 and box.width else 1.0
